"""What a process counts of its groups, from the events of their members."""

from typing import Any

from translation.actions import Event, EventKind, MemberProtocol
from translation.member_log.signals import Gate, Window
from translation.partitions import TopicPartitions, TopicPartitionSet
from translation.policy.gates import AbortIf
from translation.reasons import ASKED_TO_REJOIN
from translation.rollout.signal_counts import SignalCounts

CLASSIC, TRANSLATED = MemberProtocol.CLASSIC, MemberProtocol.TRANSLATED


def partitions(*numbers: int) -> TopicPartitions:
    return (TopicPartitionSet("orders", None, numbers),) if numbers else ()


class Counted:
    """Counts at a clock of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.counts = SignalCounts(0.0)

    def event(self, kind: EventKind, member: str = "m", protocol: str = TRANSLATED, **more: Any) -> None:
        more.setdefault("client_id", member)
        event = Event(kind=kind, group_id=more.pop("group", "g"), member_id=member, protocol=protocol, **more)
        self.counts.record(event, self.now)

    def joined(self, member: str = "m", protocol: str = TRANSLATED, *owned: int, **more: Any) -> None:
        self.event(EventKind.JOINED, member, protocol, state="Stable", owned=partitions(*owned), **more)

    def left(self, member: str = "m", protocol: str = TRANSLATED, **more: Any) -> None:
        self.event(EventKind.LEFT, member, protocol, state="Absent", owned=(), **more)

    def cut(self, after_s: float = 10.0, group: str = "g", moving: tuple[str, ...] = ("g",)) -> Window:
        self.now += after_s
        self.counts.cut(self.now)
        return self.counts.report(group, AbortIf(), moving, self.now).windows[0]


def test_members_that_come_for_the_first_time_have_not_rejoined() -> None:
    counted = Counted()
    counted.joined("a", CLASSIC)
    counted.joined("b", TRANSLATED)
    window = counted.cut()
    assert (window.members, window.classic, window.changes) == (2, 1, 2)
    assert (window.rejoins, window.classic_rejoins) == (0, 0)


def test_a_client_that_joins_again_has_rejoined_also_under_another_id() -> None:
    counted = Counted()
    counted.joined("a", client_id="one")
    counted.joined("a", client_id="one")
    counted.left("a", client_id="one")
    counted.joined("b", client_id="one")
    counted.joined("c", CLASSIC)
    counted.joined("c", CLASSIC)
    window = counted.cut()
    assert (window.rejoins, window.classic_rejoins) == (2, 1)
    counted.left("b", client_id="one")
    counted.cut(70)
    counted.joined("d", client_id="one")
    assert counted.cut().rejoins == 0, "so much later it is a newcomer"


def test_the_rejoin_of_a_client_that_was_told_is_not_counted() -> None:
    counted = Counted()
    counted.joined("a", CLASSIC, client_id="one")
    counted.event(EventKind.POLICY_CHANGED, "a", "", client_id="one")
    counted.left("a", CLASSIC, client_id="one")
    counted.joined("b", TRANSLATED, client_id="one")
    window = counted.cut()
    assert (window.told, window.rejoins) == (1, 0)
    counted.joined("b", TRANSLATED, client_id="one")
    assert counted.cut().rejoins == 1


def test_a_rebalance_that_the_proxy_asks_for_is_a_change_of_the_group() -> None:
    """Its classic members rejoin because of it, and no gate counts that as harm."""
    counted = Counted()
    counted.joined("a", CLASSIC, client_id="one")
    counted.cut()
    counted.event(EventKind.PASSED_THROUGH, "a", "", client_id="one", reason=f"{ASKED_TO_REJOIN}not known")
    counted.joined("a", CLASSIC, client_id="one")
    window = counted.cut()
    assert (window.classic_rejoins, window.changes) == (1, 1)
    counted.event(EventKind.PASSED_THROUGH, "a", "", client_id="one", reason="not converted: else")
    assert counted.cut().changes == 0


def test_partitions_are_owned_as_long_as_a_member_owns_them() -> None:
    counted = Counted()
    counted.joined("a", TRANSLATED, 0, 1)
    counted.now += 4
    counted.event(EventKind.REVOKED, "a", state="Stable", owned=partitions(0))
    window = counted.cut(6)
    assert window.owned_ms == 4_000 * 2 + 6_000
    assert counted.cut().owned_ms == 10_000


def test_a_pause_is_the_time_from_giving_up_everything_to_the_next_assignment() -> None:
    counted = Counted()
    counted.joined("a", TRANSLATED, 0, 1)
    counted.joined("b", TRANSLATED, 2, 3)
    counted.event(EventKind.REVOKED, "a", state="Stable", owned=())
    counted.event(EventKind.REVOKED, "b", state="PrepareRebalance", owned=partitions(2))
    counted.now += 2.5
    counted.event(EventKind.ASSIGNED, "a", state="CompletingRebalance", owned=partitions(0))
    counted.now += 1
    counted.event(EventKind.STATE_CHANGED, "a", state="Stable", owned=partitions(0))
    counted.event(EventKind.STATE_CHANGED, "b", state="Stable", owned=partitions(2))
    assert counted.cut().pause_ms == 3_500, "and none of who kept something"
    assert counted.cut().pause_ms == 0


def test_a_member_that_is_met_in_the_middle_of_its_life_owns_what_nobody_knows() -> None:
    counted = Counted()
    counted.event(EventKind.ADOPTED, "a", CLASSIC, state="Stable")
    assert counted.cut().unknown == 1
    counted.event(EventKind.ASSIGNED, "a", CLASSIC, state="Stable", owned=partitions(0))
    assert counted.cut().unknown == 0


def test_refused_commits_are_counted_and_accepted_ones_are_not() -> None:
    counted = Counted()
    counted.joined()
    counted.event(EventKind.COMMITTED, reason="ILLEGAL_GENERATION")
    counted.event(EventKind.COMMITTED)
    assert counted.cut().commit_errors == 1


def test_connections_that_end_are_counted_unless_their_member_has_left() -> None:
    counted = Counted()
    counted.joined("a")
    counted.joined("b")
    counted.counts.disconnected(("g", "unknown"))
    counted.left("a")
    counted.counts.disconnected(("g",))
    assert counted.cut().disconnects == 1


def test_share_groups_are_not_counted() -> None:
    counted = Counted()
    counted.joined("a", MemberProtocol.SHARE)
    assert counted.cut().members == 0


def test_other_groups_that_are_worse_than_before_are_the_control() -> None:
    counted = Counted()
    for group in ("g", "h", "i", "moving"):
        counted.joined("m", TRANSLATED, 0, group=group)
    moving = ("g", "moving")
    for _ in range(4):
        window = counted.cut(moving=moving)
    assert (window.watched, window.harmed) == (2, {})
    for _ in range(6):
        for group in ("h", "moving"):
            for _ in range(3):
                counted.counts.disconnected((group,))
        window = counted.cut(moving=moving)
        assert (window.watched, window.harmed) == (2, {Gate.DISCONNECTS: 1}), "it does not get used to that"
    assert counted.cut(moving=moving).harmed == {}


def test_a_fault_marks_the_window_in_which_it_was() -> None:
    counted = Counted()
    counted.counts.fault("broker 1 can't be reached")
    assert counted.cut().fault == "broker 1 can't be reached"
    assert counted.cut().fault == ""


def test_the_lag_is_that_of_the_window_in_which_it_was_read() -> None:
    counted = Counted()
    counted.joined()
    counted.counts.set_lag("g", 7)
    assert counted.cut().lag == 7
    assert counted.cut().lag is None


def test_groups_that_are_gone_are_forgotten() -> None:
    counted = Counted()
    counted.joined(group="other")
    counted.left(group="other")
    for _ in range(9):
        counted.cut()
    assert list(counted.counts._groups) == ["g"]
