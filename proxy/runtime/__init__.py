"""What any long-running process needs: logging, descriptor limits, time slices, child processes, watched files."""
