"""One command a file: options in, a job run, a summary for people out."""
