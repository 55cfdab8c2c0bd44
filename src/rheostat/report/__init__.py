"""What people read of a run: its score, its story, its report."""
