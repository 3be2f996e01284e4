"""What the reader and its asking process tell each other: lines of JSON over the process's standard streams."""

import msgspec

from proxy.config.fleet import Property
from proxy.groups.lag.readings import Partition, Unknown


class _Message(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    pass


class Begin(_Message, frozen=True):
    """The first question: who asks (librdkafka properties), and how many seconds each request may take."""

    account: dict[str, Property]
    timeout_s: float


class AskCommits(_Message, frozen=True):
    """OffsetFetch: all committed offsets of each group."""

    groups: tuple[str, ...]


class AskLeaders(_Message, frozen=True):
    """Metadata: the leaders of these topics' partitions."""

    topics: tuple[str, ...]


class AskEnds(_Message, frozen=True):
    """ListOffsets at one leader."""

    leader: int
    partitions: tuple[Partition, ...]


class AskGroups(_Message, frozen=True):
    """ListGroups at all brokers."""


class AskMembers(_Message, frozen=True):
    """ConsumerGroupDescribe, or DescribeGroups for a classic group: how many members each of these groups has."""

    groups: tuple[str, ...]


class Commit(msgspec.Struct, frozen=True, omit_defaults=True):
    """The committed offset of a group in one partition, which has one; or an error."""

    partition: Partition
    offset: int | Unknown
    epoch: int | None = None


class End(msgspec.Struct, frozen=True, omit_defaults=True):
    """The end of a partition, or why it is not known."""

    partition: Partition
    offset: int | Unknown
    epoch: int | None = None


class Commits(_Message, frozen=True):
    """The answer for one group."""

    group: str
    commits: tuple[Commit, ...] | Unknown


class Leaders(_Message, frozen=True):
    """The answer for one topic: its partitions, each with its leader or None."""

    topic: str
    leaders: tuple[tuple[int, int | None], ...] | Unknown


class Ends(_Message, frozen=True):
    """The answer of one leader."""

    leader: int
    ends: tuple[End, ...]


class Groups(_Message, frozen=True):
    """All groups of consumers that the account may describe: classic ones, those of the new protocol, and those that
    only have commits. ``missing``: some broker did not say, and why.
    """

    groups: tuple[str, ...]
    missing: Unknown | None = None


class Members(_Message, frozen=True):
    """The answer for one group."""

    group: str
    members: int | Unknown


class AccountRefused(_Message, frozen=True):
    """Brokers do not accept the account, or librdkafka does not accept its properties."""

    detail: str


Question = AskCommits | AskLeaders | AskEnds | AskGroups | AskMembers
ToAsker = Begin | AskCommits | AskLeaders | AskEnds | AskGroups | AskMembers
Answer = Commits | Leaders | Ends | Groups | Members | AccountRefused
