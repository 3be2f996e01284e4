"""The test bench: a real broker, real clients as processes, and an independent look at who owned what."""
