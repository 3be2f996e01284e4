"""Replays one group's events in order; finds ownership intervals, overlaps, gaps and evidence of wrong clocks.

Theory of operation. An event's ``owned`` is a snapshot: all that the client may hold after it. A snapshot that differs
from the member's last one ends some holds and begins others.

- Each member is served by one process (replica and boot) at a time: the one of its newest *call* (joined, assigned,
  revoked, adopted, rejoined_after_loss). What another process says about the member is out of date and ignored.
- A call of a translated member that another process reports with a lower generation is older than what is known,
  whatever its time says, for a member epoch only rises: it is ignored, and proves that the clocks differ by at least
  the time between. The generation of a classic group proves nothing: a coordinator that is killed before it has
  written a generation goes back to the one before.
- A call with no higher generation, within a second (or the allowed skew, if that is more) after another process took
  over, is ignored too: no client goes forth and back so fast.
- A membership ends with ``left``, ``fenced``, ``session_expired`` or ``rebalance_expired`` of its process.
- When a process has written nothing any more (it was killed, or the journal ends), what its members hold is not known
  from then on. If somebody else gets such a partition, the hold ends where the process's journal ended, and one
  ``unproven`` overlap of no length says so.
- The same holds for a member that another process took over after the former one had written its last event: what it
  holds is not known since then, until a snapshot of it comes. An ``adopted`` has none, and the former process may have
  ended before it could tell a change. If several end one after another before the snapshot, the first silence counts. A
  former process that wrote at the takeover or later would have told a change.
- A member that passes through, and that its process has adopted without having seen its JoinGroup, has a session
  timeout that is not known there. The broker may end it and the journal is silent: what it holds is not proven either.
- Members of share groups read the same partitions together, and those of streams groups and Kafka Connect have tasks:
  what they have is not theirs alone, or is no partition, and does not count.
- Two members of one process are ordered by ``seq``, exactly; between processes the clocks decide.

The state is that of the live members of one group; events need no window.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from pipeline.rules.events import NO_GENERATION, TRANSLATED, Event, Json, Keyed, text_of
from pipeline.rules.findings import (
    JOURNAL_ENDED,
    PROCESS_ENDED,
    BadSnapshot,
    ClockProof,
    Finding,
    Gap,
    Hold,
    Interval,
    Overlap,
    Partition,
)
from pipeline.rules.lines import ADOPTED, CALLS, COMMITTED, ENDS, EXCLUSIVE
from pipeline.rules.losses import Process
from pipeline.rules.members import Member
from pipeline.rules.saved import SavedGroup

_PASSES_THROUGH = frozenset({"classic", "consumer"})
NO_RETURN_US = 1_000_000


class _Topic(msgspec.Struct, frozen=True, gc=False):
    topic: str
    partitions: tuple[int, ...]
    id: str | None = None


_DECODER = msgspec.json.Decoder(tuple[_Topic, ...])

STATE_VERSION = 2
"""Of what :meth:`GroupOwnership.state` returns, and of the rules that led to it: another version's is of no use."""

_STATE_DECODER = msgspec.msgpack.Decoder(SavedGroup)


class GroupOwnership:
    """The ownership of one group. Call ``take`` with every event by (time_us, replica, boot, seq), then ``end``."""

    def __init__(self, last_us: Mapping[Process, int], skew_us: int, *, intervals: bool = True) -> None:
        """``last_us``: time of each process's last event; ``skew_us``: how far clocks of replicas may differ.

        A process that is not in ``last_us`` goes on writing. Without ``intervals`` none are found.
        """
        self._last_us = last_us
        self._intervals = intervals
        self._skew_us = skew_us
        self._members: dict[str, Member] = {}
        self._holders: dict[Partition, dict[str, Hold]] = {}
        self._free: dict[Partition, tuple[int, str, str, int, Process]] = {}
        self._heard: dict[tuple[str, int, Partition], int] = {}
        self._unseen: set[str] = set()
        self._last_seq: dict[Process, list[int]] = {}
        """The number and the time of each process's last event."""
        self._now_us = 0
        self._number = 0
        self.relied_on: set[Process] = set()
        """Processes that a finding takes to have ended. If one has gone on writing, the finding is another one.

        Kept only with ``intervals``: without them nobody goes on later from what is known now.
        """

    def take(self, event: Event) -> list[Finding]:
        """Process the next event; return what it shows."""
        return self.take_all(((event.time_us, event.replica, event.boot, event.seq, event),))

    def take_all(self, events: Iterable[Keyed]) -> list[Finding]:
        """Process the next events, each behind its place in the order; return what they show."""
        found: list[Finding] = []
        get_member, unseen = self._members.get, self._unseen
        process: Process = "", ""
        last: list[int] | None = None
        for time_us, replica, boot, seq, event in events:
            if boot != process[1] or replica != process[0] or last is None:
                process = replica, boot
                last = self._last_seq.get(process)
            if last is None:
                last = self._last_seq[process] = [seq, time_us]
            else:
                if seq <= last[0]:
                    if seq == last[0]:
                        continue  # the same event once more
                    found.append(_set_back(event, *last))
                last[0] = seq
                last[1] = time_us
            if time_us > self._now_us:
                self._now_us = time_us
            self._number += 1
            name, protocol = event.member, event.protocol
            is_translated = protocol == TRANSLATED
            if not name or not (is_translated or protocol in EXCLUSIVE):
                continue
            if unseen or not is_translated:
                self._note_unseen(event)
            member, kind = get_member(name), event.kind
            if member is None or member.process != process or kind in ENDS:
                self._of_member(event, process, found)
                continue
            if kind in CALLS:
                member.called(event)
            owned = event.owned
            if owned is not None and owned != member.owned:
                self._snapshot(member, event, owned, found)
            member.heard_us = time_us
        return found

    def _of_member(self, event: Event, process: Process, found: list[Finding]) -> None:
        """Process the first event of a member, the last, or one of another process than before."""
        kind, owned = event.kind, event.owned
        member = self._members.get(event.member)
        if member is None:
            if kind in ENDS or (owned is None and kind not in CALLS):
                return
            member = self._members[event.member] = Member(event)
        elif member.process != process:
            if kind not in CALLS:
                return  # its former process lags behind
            proof_or_stale = self._stale(member, event)
            if proof_or_stale is not None:
                found += proof_or_stale
                return
            if member.holds:
                last_us = self._last_us.get(member.process, event.time_us)
                if last_us < event.time_us:
                    member.not_known_since(last_us, event.time_us)
            member.go_on_to(event)
        if kind in CALLS:
            member.called(event)
        if kind in ENDS:
            self._release(member, event, event.name, member.holds.keys(), found)
            del self._members[event.member]
        elif owned is not None and owned != member.owned:
            self._snapshot(member, event, owned, found)
        member.heard_us = event.time_us

    def end(self) -> Iterator[Finding]:
        """Report the ownerships and gaps that are still open, as at the end of the journal. Changes nothing."""
        for partition, holders in self._holders.items():
            holds = list(holders.values())
            for number, hold in enumerate(holds):
                for other in holds[number + 1 :]:
                    if hold.is_of_same_topic(other):
                        yield self._overlap(partition, hold, other, self._now_us, None)
                yield Interval(partition, hold, self._now_us, None, JOURNAL_ENDED)
        for partition, (since_us, cause, event, unseen, process) in self._free.items():
            yield Gap(partition, since_us, None, cause, event, None, unseen, process, None)

    def open_overlaps(self, now_us: int) -> Iterator[Overlap]:
        """Report the overlaps that are still open, as at ``now_us``. Changes nothing."""
        for partition, holders in self._holders.items():
            if len(holders) > 1:
                holds = list(holders.values())
                for number, hold in enumerate(holds):
                    for other in holds[number + 1 :]:
                        if hold.is_of_same_topic(other):
                            yield self._overlap(partition, hold, other, now_us, None)

    def save(self) -> SavedGroup:
        """Return all that is known of the group; :meth:`restore` goes on with it."""
        return SavedGroup(
            members=[member.saved(name) for name, member in self._members.items()],
            free=[
                (*partition, since_us, cause, event, unseen, *process)
                for partition, (since_us, cause, event, unseen, process) in self._free.items()
            ],
            heard=[(first, number, *partition, us) for (first, number, partition), us in self._heard.items()],
            unseen=sorted(self._unseen),
            last_seq=[(*process, seq, us) for process, (seq, us) in self._last_seq.items()],
            now_us=self._now_us,
            number=self._number,
            relied_on=sorted(self.relied_on),
        )

    def restore(self, saved: SavedGroup) -> None:
        """Go on with what :meth:`save` gave; call it before the first event."""
        self._now_us, self._number = saved.now_us, saved.number
        self.relied_on = set(saved.relied_on)
        self._unseen = set(saved.unseen)
        self._last_seq = {(replica, boot): [seq, us] for replica, boot, seq, us in saved.last_seq}
        self._free = {
            (topic, number): (since_us, cause, event, unseen, (replica, boot))
            for topic, number, since_us, cause, event, unseen, replica, boot in saved.free
        }
        self._heard = {
            (first, number, (topic, partition)): us for first, number, topic, partition, us in saved.heard
        }
        for one in saved.members:
            member = self._members[one.name] = Member.restored(one)
            for partition, hold in member.holds.items():
                self._holders.setdefault(partition, {})[one.name] = hold

    def state(self) -> bytes:
        """Return what :meth:`save` does as bytes, for :meth:`go_on_from`."""
        return msgspec.msgpack.encode(self.save())

    def go_on_from(self, state: bytes) -> None:
        """Take over what another one knew; this one must be new. Raises msgspec.MsgspecError."""
        self.restore(_STATE_DECODER.decode(state))

    @property
    def holds(self) -> int:
        """Return how many partitions have an owner."""
        return len(self._holders)

    @property
    def size(self) -> int:
        """Return how many members, partitions and overlaps are kept."""
        return len(self._members) + len(self._holders) + len(self._free) + len(self._heard)

    def members(self) -> AbstractSet[str]:
        """Return the members that are known."""
        return self._members.keys()

    def servers(self) -> set[Process]:
        """Return the processes that serve members which hold partitions."""
        return {member.process for member in self._members.values() if member.holds}

    def may_have_ended(self) -> set[Process]:
        """Return the processes that a hold depends on: findings to come may ask whether they have ended."""
        former = {one.process for member in self._members.values() if member.holds for one in member.silences}
        return self.servers() | former

    def forget(self, ended: Mapping[Process, int], before_us: int) -> None:
        """Forget what nothing can be added to: of processes in ``ended``, members not heard of since ``before_us``.

        A member that holds a partition is kept, however long it has been silent.
        """
        for name, member in list(self._members.items()):
            if not member.holds and member.heard_us < before_us and member.process in ended:
                del self._members[name]
                self._unseen.discard(name)
        for process in [one for one in self._last_seq if ended.get(one, before_us) < before_us]:
            del self._last_seq[process]

    def _stale(self, member: Member, event: Event) -> list[Finding] | None:
        """Return None if the event's process serves the member now, else the proof that the late event gives."""
        lower = NO_GENERATION < event.generation < member.generation
        if lower and event.protocol == member.protocol == TRANSLATED:
            late_us = event.time_us - member.generation_us
            if late_us <= 0:
                return []
            names = event.member, event.name, member.generation_event
            return [ClockProof(event.process, member.process, late_us, *names)]
        older = (lower or event.generation == member.generation) and event.kind != ADOPTED
        return [] if older and event.time_us - member.taken_us <= max(self._skew_us, NO_RETURN_US) else None

    def _snapshot(self, member: Member, event: Event, owned: Json, found: list[Finding]) -> None:
        """Apply a change of a member's partitions."""
        try:
            listed = _DECODER.decode(owned)
        except msgspec.MsgspecError as error:
            found.append(BadSnapshot(event.name, f"owned: {error}", text_of(owned)))
            return
        member.owned = owned
        holds, name = member.holds, event.name
        now = {(topic.topic, number): topic.id for topic in listed for number in topic.partitions}
        if holds and (gone := holds.keys() - now.keys()):
            self._release(member, event, name, gone, found)
        member.silences = ()  # what has gone went at an unknown time; all else is known again
        if now and (new := now.keys() - holds.keys()):
            about = event.member, event.instance, event.time_us, name, member.process, self._number
            for partition in sorted(new) if len(new) > 1 else new:
                self._hold(member, partition, Hold(*about, now[partition]), event, found)

    def _hold(
        self, member: Member, partition: Partition, hold: Hold, event: Event, found: list[Finding]
    ) -> None:
        holders = self._holders.get(partition)
        if holders is None:
            holders = self._holders[partition] = {}
        else:
            for other in list(holders.values()):
                self._forget_if_silent(partition, other, hold, event, found)
            for other in holders.values():
                self._heard[_pair(partition, other, hold)] = self._members[other.member].heard_us
        free = self._free.pop(partition, None)
        if free is not None and not holders:
            since_us, cause, before, unseen, process = free
            until_us = max(event.time_us, since_us)
            if self._unseen:
                unseen = max(unseen, len(self._unseen))
            found.append(
                Gap(partition, since_us, until_us, cause, before, hold.event, unseen, process, hold.process)
            )
        holders[hold.member] = hold
        member.holds[partition] = hold

    def _forget_if_silent(
        self, partition: Partition, other: Hold, hold: Hold, event: Event, found: list[Finding]
    ) -> None:
        """End an ownership that was not known any more when another member got the partition."""
        theirs = self._members[other.member]
        process, last_us = theirs.known(self._last_us, event.time_us)
        if last_us >= event.time_us:
            return
        if self._intervals:
            self.relied_on.add(process)
            found.append(Interval(partition, other, max(last_us, other.since_us), None, PROCESS_ENDED))
        if other.is_of_same_topic(hold):
            sides = other, process, hold, event.process
            at_us = event.time_us
            found.append(
                Overlap(
                    partition,
                    *sides,
                    at_us,
                    at_us,
                    None,
                    proven=False,
                    heard_us=theirs.heard_us,
                    served_by=(process,),
                )
            )
        holders = self._holders[partition]
        del holders[other.member], theirs.holds[partition]
        for third in holders.values():
            if other.is_of_same_topic(third):  # until then both had it
                found.append(self._overlap(partition, other, third, last_us, None))
            self._heard.pop(_pair(partition, other, third), None)
        theirs.owned = ""  # its next snapshot is read again

    def _release(
        self,
        member: Member,
        event: Event,
        name: str,
        partitions: AbstractSet[Partition],
        found: list[Finding],
    ) -> None:
        """End holds of a member by an event with this name."""
        for partition in sorted(partitions) if len(partitions) > 1 else list(partitions):
            hold = member.holds.pop(partition)
            holders = self._holders[partition]
            del holders[hold.member]
            for other in holders.values():
                if hold.is_of_same_topic(other):
                    found.append(self._overlap(partition, hold, other, event.time_us, name))
                self._heard.pop(_pair(partition, hold, other), None)
            if self._intervals:
                found.append(Interval(partition, hold, event.time_us, name, event.kind))
            if not holders:
                del self._holders[partition]
                self._free[partition] = (event.time_us, event.kind, name, len(self._unseen), member.process)

    def _overlap(
        self, partition: Partition, one: Hold, other: Hold, until_us: int, end_event: str | None
    ) -> Overlap:
        first, second = sorted((one, other), key=lambda hold: hold.number)
        heard_us = self._heard[_pair(partition, first, second)]
        one_server, other_server = (self._members[hold.member] for hold in (first, second))
        served_by = one_server.served_by(heard_us) | other_server.served_by(second.since_us)
        first_process, known_us = one_server.known(self._last_us, until_us)
        for process, last_us in ((first_process, known_us), other_server.known(self._last_us, until_us)):
            if last_us < until_us and self._intervals:
                self.relied_on.add(process)
            known_us = min(known_us, last_us)
        sides = first, first_process, second, second.process
        times = second.since_us, max(second.since_us, min(until_us, known_us)), end_event
        return Overlap(
            partition,
            *sides,
            *times,
            proven=one_server.end_is_told,
            heard_us=heard_us,
            served_by=tuple(sorted(served_by)),
        )

    def _note_unseen(self, event: Event) -> None:
        """Track pass-through members that own partitions which the journal does not show."""
        if event.kind == COMMITTED:
            return  # says nothing of partitions
        if event.protocol in _PASSES_THROUGH and event.kind not in ENDS and event.owned is None:
            self._unseen.add(event.member)
        else:
            self._unseen.discard(event.member)


def _set_back(event: Event, seq: int, time_us: int) -> ClockProof:
    """Return the proof that a clock was set back within one boot: ``seq`` is a later number at an earlier time."""
    older = f"{event.replica}.{event.boot}.{seq}"
    return ClockProof(event.process, event.process, event.time_us - time_us, event.member, event.name, older)


def _pair(partition: Partition, one: Hold, other: Hold) -> tuple[str, int, Partition]:
    """Return the key of two holds of a partition in ``_heard``."""
    first, second = (one, other) if one.number < other.number else (other, one)
    return first.member, second.number, partition
