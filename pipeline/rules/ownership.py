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
from typing import NamedTuple

import msgspec

from pipeline.rules.lines import ADOPTED, CALLS, COMMITTED, ENDS, EXCLUSIVE
from pipeline.rules.losses import Process
from pipeline.rules.saved import SavedGroup, SavedHold, SavedMember

NO_GENERATION = -1
TRANSLATED = "translated"
_PASSES_THROUGH = frozenset({"classic", "consumer"})
NO_RETURN_US = 1_000_000
PROCESS_ENDED = "process_ended"
JOURNAL_ENDED = "journal_ended"

Partition = tuple[str, int]
"""Topic name and partition."""


Json = str | msgspec.Raw
"""JSON text, or a part of a line."""


class Event(NamedTuple):
    """The fields of an event that the rules need; a :class:`~pipeline.rules.lines.Line` with all of them will do."""

    time_us: int
    replica: str
    boot: str
    seq: int
    kind: str
    member: str
    instance: str | None
    protocol: str | None
    generation: int
    owned: Json | None

    @property
    def process(self) -> Process:
        """Return the process that wrote it."""
        return self.replica, self.boot

    @property
    def name(self) -> str:
        """Return the event's identity as text."""
        return f"{self.replica}.{self.boot}.{self.seq}"


Keyed = tuple[int, str, str, int, Event]
"""An event behind its place in the order: time_us, replica, boot and seq."""


class Hold(msgspec.Struct, frozen=True, gc=False):
    """A member's ownership of a partition since ``since_us``, not yet ended."""

    member: str
    instance: str | None
    since_us: int
    event: str
    process: Process
    number: int
    topic_id: str | None


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


class _Topic(msgspec.Struct, frozen=True, gc=False):
    topic: str
    partitions: tuple[int, ...]
    id: str | None = None


_DECODER = msgspec.json.Decoder(tuple[_Topic, ...])


class _Silence(NamedTuple):
    """A process that had written its last event, at ``last_us``, when another one took over its member."""

    process: Process
    last_us: int
    taken_us: int


class _Member:
    """A live member: the process that serves it, and the partitions that it owns."""

    __slots__ = (
        "end_is_told", "generation", "generation_event", "generation_us", "heard_us", "holds", "owned", "process",
        "protocol", "servers", "silences",
    )  # fmt: skip

    def __init__(self, event: Event) -> None:
        self.process = event.process
        """The process that serves it now."""
        self.servers = [(event.time_us, self.process)]
        self.heard_us = event.time_us
        self.protocol = event.protocol
        self.end_is_told = True
        self.generation = NO_GENERATION
        self.generation_us = event.time_us
        self.generation_event = event.name
        self.owned: Json = "[]"
        self.holds: dict[Partition, Hold] = {}
        self.silences: tuple[_Silence, ...] = ()
        """Of those that served it one after another since its last snapshot, the ones that seemed to have ended."""

    @classmethod
    def restored(cls, saved: SavedMember) -> "_Member":
        """Return the member as it was saved, without its holds."""
        member = cls.__new__(cls)
        member.process = saved.replica, saved.boot
        member.servers = [(us, (replica, boot)) for us, replica, boot in saved.servers]
        member.heard_us = saved.heard_us
        member.protocol = saved.protocol
        member.end_is_told = saved.end_is_told
        member.generation = saved.generation
        member.generation_us = saved.generation_us
        member.generation_event = saved.generation_event
        member.owned = saved.owned
        member.holds = {}
        member.silences = tuple(
            _Silence((replica, boot), last_us, taken_us)
            for replica, boot, last_us, taken_us in saved.silences
        )
        return member

    @property
    def taken_us(self) -> int:
        """Return since when that process serves it."""
        return self.servers[-1][0]

    def go_on_to(self, event: Event) -> None:
        """Record that the event's process serves the member from now on."""
        oldest = min((hold.since_us for hold in self.holds.values()), default=event.time_us)
        while len(self.servers) > 1 and self.servers[1][0] < oldest:
            del self.servers[0]
        self.process = event.process
        self.servers.append((event.time_us, self.process))

    def not_known_since(self, last_us: int, taken_us: int) -> None:
        """Record that its process has written nothing after ``last_us``, and another one takes over."""
        self.silences += (_Silence(self.process, last_us, taken_us),)
        self.owned = ""  # its next snapshot is read, also one equal to the last: it confirms the holds

    def called(self, event: Event) -> None:
        """Update the member from a call of its client."""
        generation, protocol = event.generation, event.protocol
        self.end_is_told = protocol == TRANSLATED or event.kind != ADOPTED
        if generation > self.generation or protocol != self.protocol:
            self.generation, self.generation_us = generation, event.time_us
            self.generation_event, self.protocol = event.name, protocol

    def served_by(self, from_us: int) -> set[Process]:
        """Return the processes that have served it since this time."""
        ends = [since_us for since_us, _ in self.servers[1:]] + [from_us]
        return {process for (_, process), end_us in zip(self.servers, ends, strict=True) if end_us >= from_us}


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
        self._members: dict[str, _Member] = {}
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
            member = self._members[event.member] = _Member(event)
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
                    if _same_topic(hold, other):
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
                        if _same_topic(hold, other):
                            yield self._overlap(partition, hold, other, now_us, None)

    def save(self) -> SavedGroup:
        """Return all that is known of the group; :meth:`restore` goes on with it."""
        return SavedGroup(
            members=[_saved(name, member) for name, member in self._members.items()],
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
            member = self._members[one.name] = _Member.restored(one)
            for partition, hold in _holds(one):
                member.holds[partition] = hold
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

    def _stale(self, member: _Member, event: Event) -> list[Finding] | None:
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

    def _snapshot(self, member: _Member, event: Event, owned: Json, found: list[Finding]) -> None:
        """Apply a change of a member's partitions."""
        try:
            listed = _DECODER.decode(owned)
        except msgspec.MsgspecError as error:
            found.append(BadSnapshot(event.name, f"owned: {error}", _text(owned)))
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
        self, member: _Member, partition: Partition, hold: Hold, event: Event, found: list[Finding]
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
        process, last_us = self._known(theirs, event.time_us)
        if last_us >= event.time_us:
            return
        if self._intervals:
            self.relied_on.add(process)
            found.append(Interval(partition, other, max(last_us, other.since_us), None, PROCESS_ENDED))
        if _same_topic(other, hold):
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
            if _same_topic(other, third):  # until then both had it
                found.append(self._overlap(partition, other, third, last_us, None))
            self._heard.pop(_pair(partition, other, third), None)
        theirs.owned = ""  # its next snapshot is read again

    def _known(self, member: _Member, until_us: int) -> tuple[Process, int]:
        """Return who tells what a member holds, and when that one wrote last; ``until_us`` if it goes on writing.

        That is the process that serves it, or the first one that had ended when another took over, as long as no
        snapshot has come since. A process that seemed to have ended then may have turned out to be alive.
        """
        for process, _, taken_us in member.silences:
            last_us = self._last_us.get(process, taken_us)
            if last_us < taken_us:
                return process, last_us
        return member.process, self._last_us.get(member.process, until_us)

    def _release(
        self,
        member: _Member,
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
                if _same_topic(hold, other):
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
        first_process, known_us = self._known(one_server, until_us)
        for process, last_us in ((first_process, known_us), self._known(other_server, until_us)):
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


def _saved(name: str, member: _Member) -> SavedMember:
    together: dict[tuple[int, str, str | None], list[int]] = {}
    holds = {}
    for (topic, partition), hold in member.holds.items():
        key = hold.number, topic, hold.topic_id
        together.setdefault(key, []).append(partition)
        holds[key] = hold
    return SavedMember(
        name,
        *member.process,
        [(us, *process) for us, process in member.servers],
        member.heard_us,
        member.protocol,
        member.end_is_told,
        member.generation,
        member.generation_us,
        member.generation_event,
        _text(member.owned),
        [
            SavedHold(topic, topic_id, together[number, topic, topic_id], hold.instance, hold.since_us,
                      hold.event, *hold.process, number)
            for (number, topic, topic_id), hold in holds.items()
        ],
        [(*process, last_us, taken_us) for process, last_us, taken_us in member.silences],
    )  # fmt: skip


def _holds(saved: SavedMember) -> Iterator[tuple[Partition, Hold]]:
    for one in saved.holds:
        process = one.replica, one.boot
        hold = Hold(saved.name, one.instance, one.since_us, one.event, process, one.number, one.topic_id)
        for partition in one.partitions:
            yield (one.topic, partition), hold


def _set_back(event: Event, seq: int, time_us: int) -> ClockProof:
    """Return the proof that a clock was set back within one boot: ``seq`` is a later number at an earlier time."""
    older = f"{event.replica}.{event.boot}.{seq}"
    return ClockProof(event.process, event.process, event.time_us - time_us, event.member, event.name, older)


def _text(json: Json) -> str:
    return json if isinstance(json, str) else bytes(json).decode()


def _pair(partition: Partition, one: Hold, other: Hold) -> tuple[str, int, Partition]:
    """Return the key of two holds of a partition in ``_heard``."""
    first, second = (one, other) if one.number < other.number else (other, one)
    return first.member, second.number, partition


def _same_topic(one: Hold, other: Hold) -> bool:
    """Whether both are the same topic. A recreated topic keeps its name but has a new id; client claims have no ids."""
    return one.topic_id is None or other.topic_id is None or one.topic_id == other.topic_id
