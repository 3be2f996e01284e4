"""What a move changed: rebalances of one kind, before the move, in it and after it settled."""

import json
import random
from collections import Counter

import pytest

from pipeline.rules.certificate import Compared, Side
from pipeline.rules.gains import APART_S, ENOUGH, JOINED, PAUSED, Gains, kind_of
from pipeline.rules.lines import ENDS, LAST_US, Line, parse_line
from tests.pipeline.rules.test_verifier import event

S = 1_000_000
QUIET_S = APART_S + 1
NONE = Side(0, 0, 0, 0)


class Group:
    """A group whose members join, leave and move; times are in seconds, and go on by themselves."""

    def __init__(self) -> None:
        self.ended: set[tuple[str, str]] = set()
        self.gains = Gains(self.ended)
        self.protocol = "classic"
        self.now_s = 1_000.0
        self._seq = 0

    def says(self, kind: str, member: str, replica: str = "a", **fields: object) -> None:
        self._seq += 1
        line = parse_line(
            json.dumps(
                event(self._seq, kind, member, time_us=int(self.now_s * S), replica=replica, **fields)
                | {"protocol": fields.get("protocol", self.protocol)}
            ).encode()
        )
        assert isinstance(line, Line), line
        self.gains.take(line)

    def state(self, member: str, before: str, after: str, **fields: object) -> None:
        self.says("state_changed", member, previous_state=before, state=after, **fields)

    def join(self, member: str) -> "Group":
        self.state(member, "", "CompletingRebalance")
        return self

    def stable(self, member: str) -> "Group":
        self.state(member, "CompletingRebalance", "Stable")
        return self

    def pause(self, *members: str, for_s: float) -> "Group":
        for member in members:
            self.state(member, "Stable", "PrepareRebalance")
        self.now_s += for_s
        for member in members:
            self.state(member, "PrepareRebalance", "Stable")
        return self

    def ends(self, member: str, kind: str = "left") -> "Group":
        self.says(kind, member, state="")
        return self

    def quiet(self) -> "Group":
        self.now_s += QUIET_S
        return self

    def moves(self, *members: str) -> "Group":
        self.protocol = "translated"
        for member in members:
            self.says("adopted", member)
        return self.quiet()

    def starts(self) -> "Group":
        """Two members, who have joined long ago."""
        for member in ("m1", "m2"):
            self.join(member).stable(member)
        return self.quiet()

    def compared(self) -> dict[str, Compared]:
        self.gains.count(int(self.now_s * S))
        return {one.kind: one for one in self.gains.compared()}

    def joins(self, *lengths_s: float) -> "Group":
        """So many members come one after another; each time the two that are there pause for so long."""
        for number, length_s in enumerate(lengths_s):
            came = f"{self.protocol}-{self._seq}-{number}"
            self.join(came).pause("m1", "m2", for_s=length_s).stable(came).quiet()
        return self


def test_joins_before_and_after_are_compared_by_the_median_of_what_all_clients_lost() -> None:
    found = Group().starts().joins(1, 3, 2).moves("m1", "m2", *_came(3)).joins(0.5, 0.5, 4).compared()
    join = found["join"]
    assert (join.before.count, join.moving, join.after.count) == (1 + 3, NONE, 3)
    assert (join.before.median_us, join.after.median_us) == (2 * S, 1 * S)
    assert (join.after.longest_us, join.after.total_us) == (4 * S, 10 * S)
    assert join.verdict == "shorter"


def _came(count: int) -> list[str]:
    """The members that `joins` brings to a group that `starts`, by their names."""
    group, came = Group().starts(), list[str]()
    for number in range(count):
        came.append(f"classic-{group._seq}-{number}")
        group.join(came[-1]).pause("m1", "m2", for_s=1).stable(came[-1])
    return came


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [((1, 1, 1), (2, 2, 2), "longer"), ((1, 1, 1), (1.04, 1.04, 1.04), "same"), ((1, 1), (9, 9), "too_few")],
)
def test_how_they_compare(before: tuple[float, ...], after: tuple[float, ...], verdict: str) -> None:
    group = Group().starts()
    for length_s in before:
        group.pause("m1", "m2", for_s=length_s).quiet()
    group.moves("m1", "m2")
    for length_s in after:
        group.pause("m1", "m2", for_s=length_s).quiet()
    other = group.compared()["other"]
    assert (other.before.count, other.after.count, other.verdict) == (len(before), len(after), verdict)
    assert (verdict == "too_few") == (len(before) < ENOUGH)


@pytest.mark.parametrize(
    ("kind", "ends", "joins"),
    [
        ("leave", "left", False), ("kill", "session_expired", False), ("kill", "rebalance_expired", True),
        ("deploy", "left", True), ("deploy", "fenced", True),
    ],
)  # fmt: skip
def test_the_kind_follows_from_who_joined_and_how_members_ended(kind: str, ends: str, joins: bool) -> None:
    group = Group().starts()
    group.ends("m2", ends)
    if joins:
        group.join("m3").stable("m3")
    group.pause("m1", for_s=1).quiet().moves("m1", "m3")
    assert group.compared()[kind].before == Side(1, S, S, S)


def test_nothing_is_compared_before_the_last_classic_member_is_gone() -> None:
    group = Group().starts().pause("m1", for_s=1).quiet().moves("m1").pause("m1", for_s=1).quiet()
    assert group.compared() == {}
    found = group.moves("m2").pause("m1", for_s=1).quiet().compared()["other"]
    assert (found.before.count, found.moving.count, found.after.count) == (1, 1, 1)


def test_a_rebalance_that_ends_after_the_move_began_is_of_the_move() -> None:
    group = Group().starts()
    group.state("m1", "Stable", "PrepareRebalance")
    group.protocol = "translated"
    group.now_s += 1
    group.says("adopted", "m2")
    group.now_s += 1
    group.state("m1", "PrepareRebalance", "Stable")
    found = group.quiet().compared()["other"]
    assert (found.before, found.moving.count, found.after) == (NONE, 1, NONE)


def test_what_was_after_a_move_is_in_it_once_a_classic_member_comes_back() -> None:
    group = Group().starts().moves("m1", "m2").pause("m1", for_s=1).quiet()
    assert group.compared()["other"].after.count == 1
    group.state("old", "", "CompletingRebalance", protocol="classic")
    assert group.compared() == {}
    found = group.ends("old").quiet().compared()
    assert (found["other"].moving.count, found["other"].after) == (1, NONE)


def test_a_classic_member_of_a_process_that_has_ended_holds_nothing_up() -> None:
    group = Group()
    group.state("gone", "", "Stable", protocol="classic", replica="b")
    group.protocol = "translated"
    group.join("m1").stable("m1").quiet()
    assert group.gains.settled_us is None
    group.ended.add(("b", "1"))
    group.pause("m1", for_s=1)
    assert group.gains.settled_us is not None


def test_an_end_that_a_former_server_reports_is_none() -> None:
    group = Group().starts()
    group.ends("m2", "session_expired")
    group.state("m2", "PrepareRebalance", "Stable", replica="b")
    group.pause("m1", for_s=1).quiet().moves("m1", "m2")
    assert group.compared().keys() == {"join", "other"}


def test_a_member_that_pauses_keeps_its_rebalance_open_unless_its_process_has_ended() -> None:
    group = Group().starts().moves("m1", "m2")
    group.state("m1", "Stable", "PrepareRebalance", replica="b")
    group.pause("m2", for_s=1).quiet()
    assert "other" not in group.compared()
    group.ended.add(("b", "1"))
    assert group.compared()["other"].after == Side(1, S, S, S)


# -- against the same of a whole history, as the report has it ---------------------------------------------------

Told = tuple[float, str, str, str, str, str]
"""Time in seconds, kind, member, state before and after, and protocol."""


class Kept(Group):
    """A group that keeps what it says."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Told] = []

    def says(self, kind: str, member: str, replica: str = "a", **fields: object) -> None:
        super().says(kind, member, replica, **fields)
        before, after = str(fields.get("previous_state", "")), str(fields.get("state", ""))
        self.told.append((self.now_s, kind, member, before, after, self.protocol))


def of_the_whole(told: list[Told]) -> Counter[tuple[str, str]]:
    """Rebalances by kind and phase, by what `pipeline.report.rebalances` says of tables."""
    parts: list[tuple[float, float, str]] = []
    known, paused = set[str](), dict[str, tuple[float, bool]]()
    for at, kind, member, before, after, _ in told:
        if kind in ENDS:
            parts.append((at, at, kind))
        elif (
            kind == "state_changed" and member not in known and not before and after == "CompletingRebalance"
        ):
            parts.append((at, at, JOINED))
        known.add(member)
        if member in paused and (after == "Stable" or kind in ENDS):
            since, is_first = paused.pop(member)
            if after == "Stable" and not is_first:
                parts.append((since, at, PAUSED))
        elif kind == "state_changed" and after != "Stable":
            paused.setdefault(member, (at, not before))
    moved_s = next(at for at, _, _, _, _, protocol in told if protocol == "translated")
    found, together, reached_s = Counter[tuple[str, str]](), list[tuple[float, float, str]](), 0.0
    for part in [*sorted(parts), (float("inf"), float("inf"), "")]:
        if together and part[0] > reached_s + APART_S:
            phase = "before" if reached_s < moved_s else "after" if together[0][0] >= moved_s else "moving"
            found[kind_of({what for _, _, what in together}), phase] += 1
            together = []
        together.append(part)
        reached_s = max(reached_s, part[1])
    return found


@pytest.mark.parametrize("seed", range(30))
def test_what_is_counted_on_the_way_is_what_the_whole_history_says(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a model, no secret
    group, members, number = Kept(), ["m1", "m2"], 2
    for member in members:
        group.join(member).stable(member)
    for protocol in ("classic", "translated"):
        if protocol == "translated":
            group.quiet()
            group.protocol = protocol
            for member in members:
                group.says("adopted", member)
        for _ in range(12):
            group.now_s += draw.choice((0.5, 5, 29, 31, 90))
            what = draw.choice(("join", "end", "pause", "pause"))
            if what == "join":
                number += 1
                members.append(f"m{number}")
                group.join(members[-1])
                group.now_s += draw.choice((0, 1, 40))
                group.stable(members[-1])
            elif what == "end" and len(members) > 1:
                group.ends(members.pop(draw.randrange(len(members))), draw.choice(sorted(ENDS)))
            else:
                some = draw.sample(members, draw.randint(1, len(members)))
                group.pause(*some, for_s=draw.choice((0.2, 3, 45)))
    group.gains.count(LAST_US)
    counted = Counter(
        {
            (one.kind, phase): side.count
            for one in group.gains.compared()
            for phase, side in (("before", one.before), ("moving", one.moving), ("after", one.after))
            if side.count
        }
    )
    assert counted == of_the_whole(group.told)
