"""The state of one record, or of a batch of records that share it."""


class InFlightState:
    """Stub: filled in by the next commits."""
