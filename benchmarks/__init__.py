"""What Epochgate costs, beside the same work without it: `make bench`."""
