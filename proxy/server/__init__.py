"""One serving process: composes its parts, starts them, checks the brokers, and drains them at the end."""
