"""One module for each group API: what a classic request of a translated member becomes, and its answer."""
