"""The commands, one per file: each parses options, runs a job and prints a summary."""
