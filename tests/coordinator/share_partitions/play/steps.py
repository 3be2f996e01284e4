"""A script of a share group: what its members do, step by step. Every step has an answer that can be compared."""

from typing import Any

import msgspec

Acknowledgements = dict[int, list[tuple[int, int, list[int]]]]
"""By partition: first offset, last offset, types."""
NEXT = -100
"""The epoch that is next in the member's session."""
Answer = dict[str, Any]


class Produce(msgspec.Struct, frozen=True):
    """One batch of the log for each size."""

    partition: int
    sizes: tuple[int, ...]


class Fetch(msgspec.Struct, frozen=True):
    """A ShareFetch; ``connection`` is the member's own by default."""

    member: str
    epoch: int = NEXT
    add: tuple[int, ...] = ()
    forget: tuple[int, ...] = ()
    acknowledge: Acknowledgements = {}
    max_records: int = 500
    batch_size: int = 500
    exactly: bool = False
    is_renew_ack: bool = False
    version: int = 2
    connection: str = ""
    wait_ms: int = 150

    @property
    def named(self) -> Acknowledgements:
        """The partitions in the request, with their acknowledgements."""
        return {**{number: [] for number in self.add}, **self.acknowledge}


class Acknowledge(msgspec.Struct, frozen=True):
    """A ShareAcknowledge."""

    member: str
    acknowledge: Acknowledgements = {}
    epoch: int = NEXT
    is_renew_ack: bool = False
    version: int = 2
    connection: str = ""


class Gather(msgspec.Struct, frozen=True):
    """All locks end; the member fetches until it has so many records of its session's partitions."""

    member: str
    count: int


class Disconnect(msgspec.Struct, frozen=True):
    """The connection ends; ``count`` records become available, or the broker forgets the group's share partitions."""

    connection: str


class DeleteRecords(msgspec.Struct, frozen=True):
    """The log begins at this offset."""

    partition: int
    offset: int


Step = Produce | Fetch | Acknowledge | Gather | Disconnect | DeleteRecords


class Settings(msgspec.Struct, frozen=True):
    """The group's settings. Locks of a script that waits for them are short."""

    delivery_count_limit: int = 5
    lock_ms: int = 60_000
    renew_enabled: bool = True
    max_record_locks: int = 2_000


class Script(msgspec.Struct, frozen=True):
    """Steps in one topic with two partitions. A member named ``warm`` has a session already, at its epoch 1."""

    steps: list[Step]
    settings: Settings = Settings()
