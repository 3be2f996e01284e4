"""Decides whether a client is within its contract, which is what entitles it to its partitions.

A classic client is within its contract from the moment at which it takes over the assignment of a SyncGroup
answer until the first of these, which then holds until it takes over another assignment:

* its process ended, it sent LeaveGroup, or another process began to join with its instance id;
* its *session*: no call of it was read by a proxy for its session timeout, and no JoinGroup of it waits there;
* its *rebalance timeout* after the first REBALANCE_IN_PROGRESS that it was answered, without a JoinGroup; or after a
  JoinGroup answer, without a SyncGroup;
* it was told that its membership is over (UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, FENCED_INSTANCE_ID). It may be told
  so only if it is outside its contract already: telling it without a cause is a violation;
* it was *cut off*: its connection broke, its proxy died or stood still, or the coordinator failed over, and the
  broker's own timeout ended the membership before the proxy had reached the broker again.

A member of the new protocol is within it until the broker ended its membership or its process ended.

All times are those at which something was read or answered at the proxy: that is what a client can be held to.
"""

from typing import Any

from protocol_codecs import ErrorCode
from tests.simulation.kernel import Kernel

Pid = tuple[Any, int]
"""A partition of one incarnation of a topic: topic id and index."""

MEMBERSHIP_IS_OVER = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}
)
"""The errors by which a client learns that it is no member any more."""


def flat(partitions: Any) -> frozenset[Pid]:
    """Flatten partitions by topic id into a set of pairs."""
    return frozenset((topic_id, number) for topic_id, numbers in partitions.items() for number in numbers)


LEFT_BEHIND = "commits of clients whose group became a classic one without them"


class Standing:
    """The state of one client process and its membership, as seen from outside."""

    __slots__ = (
        "_kernel",
        "abandoned_join",
        "answered_ms",
        "asked_to_rejoin_ms",
        "broken_ms",
        "claims",
        "classic",
        "client",
        "committed_with",
        "disowned",
        "displaced",
        "epoch_heard",
        "generation",
        "given",
        "handed",
        "heard_ms",
        "instance_id",
        "joined_at",
        "joined_ms",
        "joins_as",
        "joins_at_the_broker",
        "joins_waiting",
        "member_id",
        "moved",
        "moved_late",
        "over",
        "over_ms",
        "previous_generation",
        "question_lost_ms",
        "rebalance_timeout_ms",
        "replaced",
        "session_timeout_ms",
        "synced",
        "synced_ms",
        "taking_over",
        "taking_over_late",
        "took_over",
    )

    def __init__(self, client: Any, kernel: Kernel) -> None:
        self._kernel = kernel
        self.client = client
        pace = getattr(client, "pace", None)
        self.session_timeout_ms: int | None = None if pace is None else pace.session_timeout_ms
        self.rebalance_timeout_ms: int = 0 if pace is None else pace.rebalance_timeout_ms
        self.instance_id: str | None = getattr(client, "instance_id", None)
        self.over: str | None = None
        """Why it is outside its contract, once it is."""
        self.over_ms = -1
        """Since when."""
        self.synced_ms = 0
        """When its last SyncGroup was answered."""
        self.heard_ms = kernel.now_ms
        self.broken_ms = -(10**9)
        """When its way to the broker was last broken."""
        self.question_lost_ms = -(10**9)
        """When one of its connections last broke before the broker had said what it may do."""
        self.replaced = False
        """Whether another process has begun to join with its instance id since it did itself."""
        self.moved = False
        """Whether more than one process has served it."""
        self.epoch_heard = -1
        """The member epoch in the last answer of the broker that a process got for it."""
        self.moved_late = False
        """Whether the broker has moved it on, since its JoinGroup was answered, for a request that came late."""
        self.joins_waiting: set[int] = set()
        self.joins_at_the_broker = False
        """Whether a JoinGroup of it, not answered yet, went to the broker as that of a classic member."""
        self.joins_as: str | None = None
        """The member id under which a proxy last began a membership for it, of which it may not have heard yet."""
        self.taking_over: set[int] = set()
        """Its JoinGroups that came without a member id, to take over an instance id."""
        self.taking_over_late: set[int] = set()
        """Those of them that it has given up, while the process that read them has not heard that it is gone."""
        self.took_over: list[tuple[Any, bool]] = []
        """Its JoinGroups without a member id, as proxies sent them to the broker; and whether each was served."""
        self.displaced = ""
        """Its member that lost the instance id to a JoinGroup of its own, which the broker served after a newer one."""
        self.abandoned_join = False
        """A JoinGroup of it was read whose answer it never got."""
        self.asked_to_rejoin_ms: int | None = None
        self.joined_ms: int | None = None
        """When its JoinGroup was answered, until its SyncGroup comes."""

        self.answered_ms = -1
        """When its last JoinGroup was answered."""
        self.classic = False
        """Whether the broker itself answered its last JoinGroup: it is a classic member."""
        self.disowned: frozenset[Pid] = frozenset()
        """Partitions that it still works on although its last JoinGroup did not claim them; it has no right to them."""
        self.committed_with: dict[tuple[str, int, int], int] = {}
        """The generation of each of its commits, by topic, partition and offset."""
        self.member_id = ""
        self.joined_at: tuple[str, int] | None = None
        """Which incarnation of which process answered its last JoinGroup."""
        self.generation = self.previous_generation = -1
        self.synced = False
        self.claims: frozenset[Pid] = frozenset()
        self.handed: frozenset[Pid] = frozenset()
        """The assignment of the last SyncGroup answer."""
        self.given: set[frozenset[Pid]] = set()
        """Every assignment that the broker gave this member since then."""

    def excuse(self) -> str | None:
        """Return why this client is outside its contract; None if it is within."""
        if self.over is None and (why := self._lapsed()) is not None:
            self.end(why)
        return self.over

    def _lapsed(self) -> str | None:
        if not self.client.alive:
            return "it ended"
        if self.session_timeout_ms is None:
            return None
        now_ms = self._kernel.now_ms
        if not self.joins_waiting and now_ms - self.heard_ms >= self.session_timeout_ms:
            return "its session timeout passed"
        if (
            self.asked_to_rejoin_ms is not None
            and now_ms - self.asked_to_rejoin_ms >= self.rebalance_timeout_ms
        ):
            return "its rebalance timeout passed before it joined again"
        if self.joined_ms is not None and now_ms - self.joined_ms >= self.rebalance_timeout_ms:
            return "its rebalance timeout passed before SyncGroup"
        return None

    def end(self, why: str) -> None:
        """Put the client outside its contract from now on."""
        if self.over is None:
            self.over = why
            self.over_ms = self._kernel.now_ms

    def renew(self) -> None:
        """Record that it took over another assignment.

        What ended its contract between the answer to SyncGroup and this moment, as a clock that jumped, stays: the end
        of its membership may be under way, however long the member log is away.
        """
        self.disowned = frozenset()
        if self.client.alive and self.over_ms <= self.synced_ms:
            self.over = None

    def age(self, by_ms: int) -> None:
        """Account for a jump of the clock by which it is measured."""
        self.excuse()
        self.heard_ms -= by_ms
        if self.asked_to_rejoin_ms is not None:
            self.asked_to_rejoin_ms -= by_ms
        if self.joined_ms is not None:
            self.joined_ms -= by_ms

    def heard(self) -> None:
        """Record that a call of it was read."""
        self.excuse()  # what has lapsed is not mended by a late call
        self.heard_ms = self._kernel.now_ms

    def join_is_answered(self, number: int) -> None:
        """Record that a JoinGroup was answered; another one, on another connection, may still be at the broker."""
        self.joins_waiting.discard(number)
        if not self.joins_waiting:
            self.joins_at_the_broker = False

    def is_cut_off_for(self, ms: int) -> None:
        """Record that its way to the broker is broken, now and for a while; an earlier fault may last longer."""
        self.broken_ms = max(self.broken_ms, self._kernel.now_ms + ms)

    def break_off(self) -> None:
        """Record that its connection to the broker broke; JoinGroups that waited count as heard until now."""
        if self.joins_waiting:
            self.abandoned_join = True
            self.taking_over_late |= self.taking_over & self.joins_waiting
            self.joins_waiting.clear()
            self.heard_ms = self._kernel.now_ms
        self.is_cut_off_for(0)
