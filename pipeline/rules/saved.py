"""What is kept of one group between two looks at its events: its ownership as plain values, and as bytes.

A process that goes through a journal for weeks keeps groups where it can find them again after a restart. The
partitions that a member got at once are kept together, so a group takes a few kilobytes.
"""

import msgspec

Text = str | None


class SavedHold(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Partitions of one topic that a member got by one event."""

    topic: str
    topic_id: Text
    partitions: list[int]
    instance: Text
    since_us: int
    event: str
    replica: str
    boot: str
    number: int


class SavedMember(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A live member."""

    name: str
    replica: str
    boot: str
    servers: list[tuple[int, str, str]]
    heard_us: int
    protocol: Text
    end_is_told: bool
    generation: int
    generation_us: int
    generation_event: str
    owned: str
    holds: list[SavedHold]
    silences: list[tuple[str, str, int, int]] = []
    """Processes that had ended when another took the member over, if no snapshot has come since: each with the time of
    its last event and that of the takeover."""


class SavedGroup(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The ownership of a group."""

    members: list[SavedMember]
    free: list[tuple[str, int, int, str, str, int, str, str]]
    """Partitions without an owner: topic, number, since when, the event's kind and name, unseen members, process."""
    heard: list[tuple[str, int, str, int, int]]
    """Of two that hold a partition: the first member, the second hold's number, the partition, when it was heard of."""
    unseen: list[str]
    last_seq: list[tuple[str, str, int, int]]
    now_us: int
    number: int
    relied_on: list[tuple[str, str]] = []
    """Processes that a finding takes to have ended, if that is kept."""
