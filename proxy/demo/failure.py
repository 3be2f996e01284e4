"""Why a demo could not be carried out."""


class DemoFailed(Exception):
    """Something did not happen that should have; the message says what, for a person."""
