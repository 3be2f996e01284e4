"""One member and its parts: states, ids, generation, timeouts, the group that it is in, procedures under way."""
