"""What runs inside Spark. Modules here are imported by executors too, so each keeps its imports light."""
