"""The states of a record that is in flight (KIP-932), by their numbers in ``__share_group_state``.

    AVAILABLE --acquire--> ACQUIRED --accept--> ACKNOWLEDGED
        ^                     |
        +--release, timeout---+--reject, gap, delivered too often--> ARCHIVED

ACKNOWLEDGED and ARCHIVED are terminal. What the log has dropped is ARCHIVED from every state.
"""

import enum

ARCHIVING = 3
"""On the way to a dead letter queue (KIP-1191). It is read as ARCHIVED: there is no dead letter queue here."""


class RecordState(enum.IntEnum):
    """What can become of a record next."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the record is done with."""
        return self in {RecordState.ACKNOWLEDGED, RecordState.ARCHIVED}


def record_state(number: int) -> RecordState:
    """Return the state that a persisted number stands for. Raises ValueError."""
    return RecordState.ARCHIVED if number == ARCHIVING else RecordState(number)
