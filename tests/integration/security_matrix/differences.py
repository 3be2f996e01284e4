"""The cells in which the proxy may differ from Kafka, each with both outcomes and the reason. There are no others."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .matrix import Cell, Way


@dataclass(frozen=True)
class Difference:
    """Cells of these callers and rows (`api: title`, with `*`) that come to one thing straight and another through."""

    why: str
    callers: frozenset[str]
    rows: tuple[str, ...]
    straight: str
    through: str
    or_through: str = ""
    """What it comes to through the proxy when a member happens to call meanwhile, if that is something else."""
    kafka: str = ""
    """The beginning of the versions that it is about; empty for all."""
    way: Way | None = None
    """The way that it is about; None for all."""

    def covers(self, cell: Cell, version: str) -> bool:
        """Whether this is what is seen in this cell."""
        row = f"{cell.call.api}: {cell.call.title}"
        return (
            version.startswith(self.kafka)
            and self.way in (None, cell.way)
            and cell.caller.key in self.callers
            and any(fnmatchcase(row, pattern) for pattern in self.rows)
            and str(cell.straight) == self.straight
            and str(cell.through) in {self.through, self.or_through}
        )

    def __str__(self) -> str:
        instead = f", or {self.or_through}" if self.or_through else ""
        return f"{self.straight} → {self.through}{instead}"


READERS = frozenset({"reads", "sees", "owner"})
AUTHENTICATED = READERS | {"without", "describes"}
BLIND = frozenset({"reads"})
"""Callers that may read the group and may not describe its topics."""

_NOTHING_TO_DESCRIBE = (
    "A translated member is subscribed to those of its topics that the principal of its JoinGroup may describe; this "
    "caller may describe none. A classic group does not ask."
)
_GIVEN_ELSEWHERE = (
    "Another process may have given this id out, or the membership may have ended, so the client joins under it. "
    "With an id that it is given it could join as well."
)
_ANSWERED_AT_ONCE = (
    "A translated member that joins again is answered at once, and others are disturbed only if partitions move. In a "
    "classic group a JoinGroup of the leader begins a rebalance; the member's own JoinGroup then takes the place of "
    "the caller's, which is never answered. Either way the member goes on with what it had."
)
_ORDER = (
    "The generation is looked at here, before the call goes to the broker, which looks at the topic first. The caller "
    "may ask for the generation by Heartbeat too."
)
_DESCRIBED_WHOLE = (
    "The broker describes groups of the new protocol only to principals that may describe all their topics, and "
    "classic groups to all that may describe the group."
)
_NO_TOKENS = (
    "The token APIs (38 to 41) are not offered to clients with certificates, and using one ends the connection: "
    "brokers refuse them on a connection that is authenticated by a token, as the proxy's is."
)

DIFFERENCES = (
    Difference(
        _NOTHING_TO_DESCRIBE,
        BLIND,
        (
            "JoinGroup: v0, no member id",
            "JoinGroup: v2, no member id",
            "JoinGroup: v5, no member id, then the one that it was given",
        ),
        "NONE; a rebalance; the caller is a member",
        "NONE; the caller is a member",
    ),
    Difference(
        _NOTHING_TO_DESCRIBE,
        BLIND,
        ("JoinGroup: v5, the static member's ids",),
        "NONE",
        "NONE; a rebalance",
    ),
    Difference(
        "A client that is to be translated and has an id of another form than Epochgate's is given one by "
        "MEMBER_ID_REQUIRED, and joins with it. After UNKNOWN_MEMBER_ID it would join anew too.",
        READERS,
        ("JoinGroup: v5, a member id that nobody has",),
        "UNKNOWN_MEMBER_ID",
        "MEMBER_ID_REQUIRED",
    ),
    Difference(
        _GIVEN_ELSEWHERE,
        BLIND,
        ("JoinGroup: v5, a member id of Epochgate's form that nobody has",),
        "UNKNOWN_MEMBER_ID",
        "NONE; the caller is a member",
    ),
    Difference(
        _GIVEN_ELSEWHERE,
        READERS - BLIND,
        ("JoinGroup: v5, a member id of Epochgate's form that nobody has",),
        "UNKNOWN_MEMBER_ID",
        "NONE; a rebalance; the caller is a member",
    ),
    Difference(
        _ANSWERED_AT_ONCE,
        READERS - BLIND,
        ("JoinGroup: v?, the dynamic member's id",),
        "no answer; a rebalance",
        "NONE",
    ),
    Difference(
        _ANSWERED_AT_ONCE,
        READERS,
        ("JoinGroup: v?, the dynamic member's id*",),
        "no answer; a rebalance",
        "NONE; a rebalance",
    ),
    Difference(
        "A new process with an instance id takes the place of the older one, which the broker is asked for; it "
        "describes the members only to principals that may describe all topics of the group. Until that is known the "
        "older one may be told that it is fenced.",
        BLIND,
        ("JoinGroup: v?, no member id, the static member's instance id",),
        "NONE; static: FENCED_INSTANCE_ID, no member any more; the caller is a member",
        "FENCED_INSTANCE_ID",
        or_through="FENCED_INSTANCE_ID; static: FENCED_INSTANCE_ID",
    ),
    Difference(
        _ORDER,
        frozenset({"reads", "sees"}),
        (
            "OffsetCommit: v7, the dynamic member's id, wrong generation",
            "TxnOffsetCommit: v3, the dynamic member's id, wrong generation",
        ),
        "TOPIC_AUTHORIZATION_FAILED",
        "ILLEGAL_GENERATION",
    ),
    Difference(
        _DESCRIBED_WHOLE,
        frozenset({"describes", "reads"}),
        ("DescribeGroups: v0", "DescribeGroups: v5"),
        "NONE, Stable, 2 members",
        "NONE, Dead, 0 members",
    ),
    Difference(
        _DESCRIBED_WHOLE,
        frozenset({"describes", "reads"}),
        ("DescribeGroups: v6",),
        "NONE, Stable, 2 members",
        "GROUP_ID_NOT_FOUND",
    ),
    Difference(
        "Kafka 4.0 moves the member epoch in the caller's heartbeat already, and fences the member's next one. A "
        "translated member goes on at the new epoch.",
        READERS - BLIND,
        ("ConsumerGroupHeartbeat: the current epoch, the dynamic member's id, another topic",),
        "NONE; a rebalance; dynamic: UNKNOWN_MEMBER_ID, subscription changed",
        "NONE; a rebalance",
        kafka="4.0",
    ),
    *(
        Difference(_NO_TOKENS, AUTHENTICATED, (row,), straight, "closed", way=Way.CERTIFICATES)
        for row, straight in (
            ("CreateDelegationToken: v3", "NONE"),
            ("RenewDelegationToken: v2, *", "DELEGATION_TOKEN_NOT_FOUND"),
            ("ExpireDelegationToken: v2, *", "DELEGATION_TOKEN_NOT_FOUND"),
            ("DescribeDelegationToken: v3", "NONE"),
        )
    ),
)


def difference(cell: Cell, version: str) -> Difference | None:
    """What makes a cell differ; None if it may not."""
    return next((one for one in DIFFERENCES if one.covers(cell, version)), None)


def unexplained(cells: Iterable[Cell], version: str) -> list[Cell]:
    """The cells that differ without a reason."""
    return [cell for cell in cells if not cell.equal and difference(cell, version) is None]


def unused(cells: Iterable[Cell], version: str) -> list[Difference]:
    """The differences that no cell shows, although they are about this version and the way of one of these cells."""
    seen = list(cells)
    ways = {None, *(cell.way for cell in seen)}
    return [
        one
        for one in DIFFERENCES
        if version.startswith(one.kafka)
        and one.way in ways
        and not any(one.covers(cell, version) for cell in seen)
    ]
