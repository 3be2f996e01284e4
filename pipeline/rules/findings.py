"""What the replay of a group's events can find: ownership intervals, overlaps, gaps, wrong clocks, bad snapshots."""

from typing import NamedTuple

import msgspec

from pipeline.rules.losses import Process

PROCESS_ENDED = "process_ended"
"""How an interval ended that was not known any more when another member got the partition."""

JOURNAL_ENDED = "journal_ended"
"""How an interval ended that was still open."""

Partition = tuple[str, int]
"""Topic name and partition."""


class Hold(msgspec.Struct, frozen=True, gc=False):
    """A member's ownership of a partition since ``since_us``, not yet ended."""

    member: str
    instance: str | None
    since_us: int
    event: str
    process: Process
    number: int
    topic_id: str | None

    def is_of_same_topic(self, other: "Hold") -> bool:
        """Whether both are the same topic. A recreated one keeps its name and has a new id; client claims have none."""
        return self.topic_id is None or other.topic_id is None or self.topic_id == other.topic_id


class Interval(NamedTuple):
    """One ownership from its beginning to its end."""

    partition: Partition
    hold: Hold
    until_us: int
    end_event: str | None
    end_kind: str


class Overlap(NamedTuple):
    """Two members owned one partition at the same time.

    The clocks that matter are those of ``first_process``, which served the first member when the overlap ended, and of
    ``second_process``, which gave the partition to the second one. ``proven`` is false if the journal would not show
    the end of the first ownership: its process had stopped writing, or does not know the session timeout. ``heard_us``
    is the last event of the first member before the overlap, ``served_by`` the processes that served either member
    since then: an event that they lost may be the end of the first ownership.
    """

    partition: Partition
    first: Hold
    first_process: Process
    second: Hold
    second_process: Process
    from_us: int
    until_us: int
    end_event: str | None
    proven: bool
    heard_us: int
    served_by: tuple[Process, ...]


class Gap(msgspec.Struct, frozen=True, gc=False):
    """A previously owned partition had no owner. ``until_us`` is null if it has had none since."""

    partition: Partition
    from_us: int
    until_us: int | None
    cause: str
    before: str
    after: str | None
    unseen_members: int
    from_process: Process
    until_process: Process | None


class ClockProof(NamedTuple):
    """Two events that prove the clock of ``ahead`` to be ahead of that of ``behind`` by at least this much."""

    ahead: Process
    behind: Process
    at_least_us: int
    member: str
    event: str
    older_event: str


class BadSnapshot(NamedTuple):
    """An event whose ``owned`` does not match the schema."""

    event: str
    reason: str
    content: str


Finding = Interval | Overlap | Gap | ClockProof | BadSnapshot
