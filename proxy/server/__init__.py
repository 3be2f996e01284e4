"""One serving process: composes its parts, starts them, and drains them at the end."""
