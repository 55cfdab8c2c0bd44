"""The loop: observe, analyze, plan, journal, execute. The only place where all stages meet, and where time passes."""
