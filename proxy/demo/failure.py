"""The error that ends a demo."""


class DemoFailed(Exception):
    """A step of the demo failed or timed out; the message says which, for a person."""
