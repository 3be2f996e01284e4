"""Counts what happens to the groups of one process, in windows: what it reports of those whose move has gates, and of
the other groups that they are compared with.

All groups are counted, so that a move has a baseline as soon as it begins, and other groups are the control. It gets
the events of all members, translated ones and those whose calls pass through. Sans-IO: time is an argument, in seconds.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Mapping

import msgspec

from translation.actions import Event, EventKind, MemberProtocol
from translation.member_log.signals import KEPT, LONGEST_REASON, Gate, Report, Window
from translation.members.member_state import MemberState
from translation.partitions import Role, TopicPartitions
from translation.policy.gates import AbortIf
from translation.reasons import ASKED_TO_REJOIN
from translation.rollout.gates import baseline_of, excesses, thresholds, totals_of

GROUPS_LIMIT = 2_000
"""Groups that are counted; of further ones the one that had no event for longest is forgotten."""

MEMBERS_LIMIT = 50_000
PARTITIONS_LIMIT = 200_000
"""Of all groups together. A group with members or partitions beyond that is not known."""

CONTROL_LIMIT = 100
"""Groups that are looked at as the control, those with the latest events."""

_PAUSES = 1_000
_CONTROL_IS_SO = 60
"""After so many windows of harm a group that is not moved is taken to be like that."""

_NOT_CONSUMERS = frozenset({MemberProtocol.SHARE, MemberProtocol.STREAMS})
_COMES_BACK_S = 60.0
"""A client that joins under another member id within so long of its last membership has rejoined."""
_CLIENTS = 1_000
"""Clients of a group that are remembered for that."""

_TopicPartition = tuple[str, int]
_Client = tuple[str | None, str]
"""Client id and host."""


class _Member:
    __slots__ = ("client", "gave_up_all_at", "in_events", "is_translated", "owned")

    def __init__(self, client: _Client) -> None:
        self.client = client
        self.is_translated = False
        self.gave_up_all_at: float | None = None
        """When it gave up everything, if it has not got its assignment since."""
        self.in_events: TopicPartitions | None = ()
        self.owned: frozenset[_TopicPartition] | None = frozenset()


class _Group:
    """One group: its members, the window that is not over, and those that are."""

    __slots__ = (
        "counts",
        "harmed_for",
        "lag",
        "left",
        "members",
        "owned",
        "owned_at",
        "owned_ms",
        "pauses",
        "recent_leavers",
        "told",
        "unaffected_windows",
        "windows",
    )

    def __init__(self, now: float) -> None:
        self.members: dict[str, _Member] = {}
        self.counts: Counter[str] = Counter()
        self.owned: Counter[_TopicPartition] = Counter()
        self.owned_ms = 0.0
        self.owned_at = now
        self.pauses: deque[float] = deque(maxlen=_PAUSES)
        self.told: OrderedDict[_Client, None] = OrderedDict()
        """Clients that were made to rejoin and have not: that rejoin is the policy's."""
        self.recent_leavers: OrderedDict[_Client, float] = OrderedDict()
        """Clients whose membership has ended, and when."""
        self.left = 0
        """Members that have left, and whose connections may be closed now."""
        self.lag: int | None = None
        self.windows: deque[Window] = deque(maxlen=KEPT)
        """The newest first."""
        self.unaffected_windows: deque[Window] = deque(maxlen=KEPT)
        """The last windows that were no worse than those before."""
        self.harmed_for = 0


class SignalCounts:
    """The groups of one process."""

    def __init__(self, now: float) -> None:
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        """The one with the latest event last."""
        self._cut_at = now
        self._cuts: deque[int] = deque(maxlen=KEPT)
        """How long the last windows were (ms), the newest first."""
        self._reported: set[str] = set()
        """Groups that were reported after the last window: they are not forgotten."""
        self._members = 0
        self._partitions = 0
        self._fault = self._fault_before = ""
        """What is wrong in the window that is not over, and in the one before."""

    # -- what happens ------------------------------------------------------------------------------------------

    def record(self, event: Event, now: float) -> None:
        """Count an event of a member or a group."""
        if event.protocol in _NOT_CONSUMERS:
            return
        group = self._groups.get(event.group_id)
        if group is None:
            if event.kind in {EventKind.PASSED_THROUGH, EventKind.STEP_CHANGED}:
                return
            group = self._add(event.group_id, now)
            if len(self._groups) > GROUPS_LIMIT:
                _, dropped = self._groups.popitem(last=False)
                self._forget(dropped)
        self._groups.move_to_end(event.group_id)
        if event.kind is EventKind.POLICY_CHANGED and not event.state:
            group.counts["told"] += 1
            group.told[event.client_id, event.client_host] = None
            if len(group.told) > _CLIENTS:
                group.told.popitem(last=False)
        elif event.kind is EventKind.PASSED_THROUGH and event.reason.startswith(ASKED_TO_REJOIN):
            group.counts["changes"] += (
                1  # its classic members rejoin for that, and are not harmed by the step
            )
        elif event.kind is EventKind.COMMITTED:
            group.counts["commit_errors"] += bool(event.reason)
        elif event.member_id and event.protocol:
            self._of_member(group, event, now)

    def _of_member(self, group: _Group, event: Event, now: float) -> None:
        is_translated = event.protocol == MemberProtocol.TRANSLATED
        member = group.members.get(event.member_id)
        if event.state == MemberState.ABSENT:
            if event.kind is EventKind.LEFT:
                group.left += 1
            if member is not None:
                self._set_owned(group, member, (), now)
                del group.members[event.member_id]
                self._members -= 1
                group.counts["changes"] += 1
                group.recent_leavers[member.client] = now
                if len(group.recent_leavers) > _CLIENTS:
                    group.recent_leavers.popitem(last=False)
            return
        is_known = member is not None
        if member is None:
            if self._members >= MEMBERS_LIMIT:
                return
            client = (event.client_id, event.client_host)
            member = group.members[event.member_id] = _Member(client)
            self._members += 1
            group.counts["changes"] += 1
            is_known = now - group.recent_leavers.pop(client, -_COMES_BACK_S) < _COMES_BACK_S
        if event.kind is EventKind.JOINED and is_known and not self._was_told(group, member):
            group.counts["rejoins" if is_translated else "classic_rejoins"] += 1
            group.counts["changes"] += is_translated
        member.is_translated = is_translated
        if event.owned is not None or event.kind is EventKind.ADOPTED:
            self._set_owned(group, member, event.owned, now)
        # It is still Stable in the event that says what it has given up.
        is_back = event.state == MemberState.STABLE and event.kind is not EventKind.REVOKED
        if is_back and member.gave_up_all_at is not None:
            group.pauses.append(now - member.gave_up_all_at)
            member.gave_up_all_at = None

    @staticmethod
    def _was_told(group: _Group, member: _Member) -> bool:
        if member.client not in group.told:
            return False
        del group.told[member.client]
        return True

    def disconnected(self, group_ids: Collection[str]) -> None:
        """A connection on which members of these groups heartbeated has ended."""
        for group_id in group_ids:
            group = self._groups.get(group_id)
            if group is None or not group.members:
                continue
            if group.left:
                group.left -= 1
            else:
                group.counts["disconnects"] += 1

    def set_lag(self, group_id: str, lag: int | None) -> None:
        """The lag of a group (records) as it was found now; None: it is not known."""
        group = self._groups.get(group_id)
        if group is not None:
            group.lag = lag

    def fault(self, why: str) -> None:
        """Something is wrong outside of all groups, in the window that is not over; empty: nothing any more."""
        self._fault = why[:LONGEST_REASON]

    def _set_owned(self, group: _Group, member: _Member, listed: TopicPartitions | None, now: float) -> None:
        if listed == member.in_events:
            return
        before = member.owned or frozenset()
        owned = (
            None
            if listed is None
            else frozenset(
                (one.topic or one.id or "", index)
                for one in listed
                if one.role is Role.PARTITION
                for index in one.partitions
            )
        )
        if owned is not None and self._partitions + len(owned) - len(before) > PARTITIONS_LIMIT:
            owned = None
        member.in_events, member.owned = listed, owned
        after = owned or frozenset()
        self._partitions += len(after) - len(before)
        self._owned_so_far(group, now)
        for lane in before - after:
            group.owned[lane] -= 1
            if group.owned[lane] <= 0:
                del group.owned[lane]
        for lane in after - before:
            group.owned[lane] += 1
        if before and not after:
            member.gave_up_all_at = now

    @staticmethod
    def _owned_so_far(group: _Group, now: float) -> None:
        group.owned_ms += len(group.owned) * max(0.0, now - group.owned_at) * 1000
        group.owned_at = now

    def _forget(self, group: _Group) -> None:
        self._members -= len(group.members)
        self._partitions -= sum(len(member.owned or ()) for member in group.members.values())

    def _add(self, group_id: str, now: float) -> _Group:
        """A group that was not seen: nothing has happened to it here in the windows before."""
        group = self._groups[group_id] = _Group(now)
        group.windows.extend(Window(ms=ms) for ms in self._cuts)
        return group

    # -- windows -----------------------------------------------------------------------------------------------

    def cut(self, now: float) -> None:
        """The window of all groups is over, and the next begins."""
        took_s = now - self._cut_at
        self._cut_at = now
        for group_id, group in list(self._groups.items()):
            self._cut(group, now, took_s)
            is_busy = group.members or any(_is_busy(window) for window in group.windows)
            if not is_busy and group_id not in self._reported:
                del self._groups[group_id]
        self._cuts.appendleft(max(1, round(took_s * 1000)))
        self._reported.clear()
        self._fault_before, self._fault = self._fault, ""

    def _cut(self, group: _Group, now: float, took_s: float) -> None:
        self._owned_so_far(group, now)
        window = Window(
            ms=max(1, round(took_s * 1000)),
            told=group.counts["told"],
            members=len(group.members),
            classic=sum(not member.is_translated for member in group.members.values()),
            changes=group.counts["changes"],
            rejoins=group.counts["rejoins"],
            classic_rejoins=group.counts["classic_rejoins"],
            commit_errors=group.counts["commit_errors"],
            disconnects=group.counts["disconnects"],
            owned_ms=round(group.owned_ms),
            unknown=sum(member.owned is None for member in group.members.values()),
            pause_ms=_p99_ms(group.pauses),
            lag=group.lag,
        )
        group.counts.clear()
        group.owned_ms, group.lag, group.left = 0.0, None, 0
        group.pauses.clear()
        is_unaffected = not _worse(group, window, AbortIf(), now)
        group.harmed_for = 0 if is_unaffected else group.harmed_for + 1
        group.windows.appendleft(window)
        if is_unaffected or group.harmed_for > _CONTROL_IS_SO:
            group.unaffected_windows.appendleft(window)

    def report(self, group_id: str, abort_if: AbortIf, moving: Collection[str], now: float) -> Report:
        """What is to be reported of a group, after :meth:`cut`. ``moving`` are the groups that are no control."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._add(group_id, now)
        self._reported.add(group_id)
        if group.windows:
            watched, harmed = self._control(abort_if, moving, now)
            newest = group.windows[0]
            group.windows[0] = msgspec.structs.replace(
                newest, watched=watched, harmed=harmed, fault=self._fault_before
            )
        return Report(windows=tuple(group.windows))

    def _control(
        self, abort_if: AbortIf, moving: Collection[str], now: float
    ) -> tuple[int, Mapping[str, int]]:
        """How many groups with members are not moved, and how many of them are worse than they were, by gate."""
        watched, harmed = 0, Counter[str]()
        for group_id in reversed(self._groups):
            group = self._groups[group_id]
            if group_id in moving or not group.windows or not group.windows[0].members:
                continue
            watched += 1
            harmed.update(_worse(group, group.windows[0], abort_if, now))
            if watched == CONTROL_LIMIT:
                break
        return watched, dict(harmed)


def _worse(group: _Group, window: Window, abort_if: AbortIf, now: float) -> list[Gate]:
    """By which gates a window is worse than is usual for the group."""
    unaffected = [totals_of((one,)) for one in group.unaffected_windows if one is not window]
    baseline = baseline_of(unaffected, round(now * 1000))
    if baseline is None:
        return []
    found = excesses(totals_of((window,)), baseline, round(now * 1000))
    return [gate for gate, most in thresholds(abort_if).items() if found.get(gate, 0) > most]


def _is_busy(window: Window) -> bool:
    return bool(window.members or window.changes or window.told)


def _p99_ms(pauses: Collection[float]) -> int:
    """The 99th percentile (nearest rank) of pauses in seconds, as milliseconds; 0 of none."""
    if not pauses:
        return 0
    ordered = sorted(pauses)
    return round(ordered[max(0, -(-len(ordered) * 99 // 100) - 1)] * 1000)
