"""What a reading of a group's lag says: for each partition, or why nothing is known."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec


class Why(StrEnum):
    """Why something is not known."""

    NO_ACCOUNT = "no account"
    """The configuration has no ``fleet``, so there is nobody to ask as."""
    BAD_ACCOUNT = "bad account"
    """The account can't be used: its client is not installed, or its properties or credentials are refused."""
    NOT_AUTHORIZED = "not authorized"
    """The account may not DESCRIBE the group, or the topic."""
    NO_COORDINATOR = "no coordinator"
    """Nobody coordinates the group at the moment, or the coordinator is loading."""
    NO_LEADER = "no leader"
    """The partition has no leader."""
    NO_TOPIC = "no topic"
    """The topic, or the partition, is not there any more."""
    NO_ANSWER = "no answer"
    """A broker did not answer in time."""
    TOO_MANY = "too many"
    """Left out: a bound of the reader was reached."""
    REFUSED = "refused"
    """Any other error of the broker's or of librdkafka's; ``detail`` names it."""


class Unknown(msgspec.Struct, frozen=True):
    """Something is not known; ``detail`` is for people."""

    why: Why
    detail: str = ""


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """One partition, as one group sees it."""

    committed: int | Unknown | None
    """The committed offset. None: the group has none here, though it has one in another partition of the topic."""
    committed_epoch: int | None = None
    """Leader epoch that was committed with the offset, if any."""
    end: int | Unknown
    """The log end offset: the high watermark, which ListOffsets tells under ``read_uncommitted``."""
    end_epoch: int | None = None
    """Leader epoch of the end, if the broker told it."""

    @property
    def lag(self) -> int | None:
        """Records from the committed offset to the end, at least 0; None if one of the two is not known, or missing.

        A commit that is ahead of the end that was read counts as 0: commits are read before ends, but an end may have
        been read for another group, a moment earlier.
        """
        if isinstance(self.committed, int) and isinstance(self.end, int):
            return max(0, self.end - self.committed)
        return None

    @property
    def unknown(self) -> Unknown | None:
        """Why the lag is not known; None if it is, or if there is no commit."""
        if isinstance(self.committed, Unknown):
            return self.committed
        return self.end if isinstance(self.end, Unknown) else None


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """The last reading of a group that could be made."""

    group_id: str
    read_at: float
    """When its commits were read, in seconds of :func:`trio.current_time`. No end in it is older than a second then."""
    partitions: Mapping[Partition, PartitionLag]
    """All partitions of the topics in which the group has a commit. Empty: it has no commit in a topic that the account
    may describe; brokers leave the others out and do not say so."""
    stale: Unknown | None = None
    """Why there is no newer reading, although one was asked for; None if this is the answer to what was asked."""

    @property
    def lag(self) -> int:
        """The sum over the partitions whose lag is known. Look at :attr:`unknown_partitions` too."""
        return sum(one.lag or 0 for one in self.partitions.values())

    @property
    def unknown_partitions(self) -> dict[Partition, Unknown]:
        """The partitions whose lag is not known, each with the reason. Those without a commit are none of them."""
        found = ((partition, one.unknown) for partition, one in self.partitions.items())
        return {partition: unknown for partition, unknown in found if unknown is not None}

    def age_s(self, now: float) -> float:
        """How old the reading is, in seconds; ``now`` is :func:`trio.current_time`."""
        return max(0.0, now - self.read_at)


Reading = GroupLag | Unknown
"""What is known of a group: a reading, which may be stale; or why there has never been one."""
