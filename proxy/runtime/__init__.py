"""What any long-running process needs: logging, file-descriptor limits, time slices, garbage collection."""
