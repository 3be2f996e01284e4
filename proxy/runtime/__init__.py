"""What any process needs: output and logging, exit codes, descriptor limits, child processes, watched files."""
