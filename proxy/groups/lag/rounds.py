"""Decides what is asked for a reading, and puts the answers together. Without sockets, clock or tasks.

Theory of operation
-------------------
A round begins with the groups that are wanted. Each is asked for its commits (OffsetFetch, which librdkafka sends to
the group's coordinator). When the commits of all are there, or a quarter of a second has passed, the ends of all their
partitions are asked for together: one question for each leader, and before it one for leaders that are not known. A
group whose partitions all have an end, or a reason why not, has its reading.

Nothing waits for what was slow before: a group whose last reading failed, and a leader whose answer was due for a
second when a group was asked, are not waited for. What is in flight is not asked again. A reading that fails leaves the
one before, and says why it is stale.
"""

from collections import OrderedDict
from collections.abc import Collection, Generator, Iterable

import msgspec

from proxy.groups.lag.messages import (
    AskCommits,
    AskEnds,
    AskLeaders,
    Commit,
    Commits,
    End,
    Ends,
    Leaders,
    Question,
)
from proxy.groups.lag.readings import GroupLag, Partition, PartitionLag, Reading, Unknown, Why

MAX_GROUPS = 1_000
"""Groups of one round; the others are told :attr:`Why.TOO_MANY`."""
MAX_PARTITIONS = 10_000
"""Partitions of one group; a group with more is told :attr:`Why.TOO_MANY`."""
MAX_PARTITIONS_IN_ALL = 100_000
"""Partitions of all readings that are kept."""
PARTITIONS_AT_ONCE = 2_000
"""Partitions of one ListOffsets."""
FRESH_S = 1.0
"""A reading, or an end, that is not older is used instead of asking again."""
SLOW_AFTER_S = 1.0
"""What has not answered within that was slow, and later rounds do not wait for it."""

_LEADERS_FOR_S = 30.0
_GATHER_S = 0.25
_REFUSED_FOR_S = 30.0
"""So long a refusal of the account is given as the reason if there is no answer; librdkafka reports it now and then."""


class _Asked:
    """A group whose reading is being made."""

    __slots__ = ("at", "commits", "read_at", "waits_for")

    def __init__(self, at: float) -> None:
        self.at = at
        self.read_at = at
        self.commits: dict[Partition, Commit] | None = None
        self.waits_for: set[str | int] = set()
        """Topics whose leaders, and leaders whose ends, are awaited."""


class _KnownEnd(msgspec.Struct, frozen=True):
    at: float
    end: End


class _KnownLeaders(msgspec.Struct, frozen=True):
    at: float
    leaders: dict[int, int | None] | Unknown

    def is_fresh(self, asked_at: float, now: float) -> bool:
        """Whether they need not be asked for again; those of a topic without all its leaders count for one round."""
        if self.at >= asked_at:
            return True
        is_complete = not isinstance(self.leaders, Unknown) and None not in self.leaders.values()
        return is_complete and now - self.at <= _LEADERS_FOR_S


class Rounds:
    """The readings of all groups, and what is asked for the next ones. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._readings: OrderedDict[str, GroupLag] = OrderedDict()
        self._kept_partitions = 0
        self._failures: OrderedDict[str, Unknown] = OrderedDict()
        self._asked: dict[str, _Asked] = {}
        self._leaders: dict[str, _KnownLeaders] = {}
        self._ends: dict[Partition, _KnownEnd] = {}
        self._topics_in_flight: dict[str, float] = {}
        self._ends_in_flight: dict[int, tuple[float, int]] = {}
        """Leader -> since when, and how many answers are due."""
        self._gathers_until = 0.0
        self._gathers: set[str] = set()
        """Groups whose commits are awaited before ends are asked for."""
        self._refused: tuple[float, Unknown] | None = None
        """When brokers last refused the account, and what they said."""
        self._settled: set[str] = set()
        """Groups with commits, whose partitions are to be looked at."""

    # -- a round -----------------------------------------------------------------------------------------------

    def begin(self, groups: Iterable[str], now: float) -> list[Question]:
        """Begin a round. Return what is to be asked first."""
        self._forget_old(now)
        wanted = [
            group
            for group in list(dict.fromkeys(groups))[:MAX_GROUPS]
            if group not in self._asked and not self._is_fresh(group, now)
        ]
        if not wanted:
            return []
        for group in wanted:
            self._asked[group] = _Asked(now)
        self._gathers |= {group for group in wanted if group not in self._failures}
        self._gathers_until = now + _GATHER_S
        return [AskCommits(tuple(wanted))]

    def is_awaited(self, groups: Iterable[str], *, also_slow: bool) -> bool:
        """Whether one of these groups is being read; without ``also_slow``, one whose last reading did not fail."""
        return any(group in self._asked and (also_slow or group not in self._failures) for group in groups)

    def next_questions(self, now: float) -> list[Question]:
        """What is to be asked now; to be called after answers, and at :meth:`next_deadline`."""
        steps = self.steps(now)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                found: list[Question] = done.value
                return found

    def steps(self, now: float) -> Generator[None, None, list[Question]]:
        """The same, with a pause after each group; answers may be taken meanwhile, but only one goes on at a time."""
        if self._gathers and now < self._gathers_until:
            return []
        self._gathers = set()
        topics: set[str] = set()
        partitions: dict[int, set[Partition]] = {}
        settled, self._settled = self._settled, set()
        for group in settled:
            if (asked := self._asked.get(group)) is not None:
                self._look_at(group, asked, topics, partitions, now)
            yield
        questions: list[Question] = []
        if topics:
            self._topics_in_flight |= dict.fromkeys(topics, now)
            questions.append(AskLeaders(tuple(sorted(topics))))
        for leader, wanted in sorted(partitions.items()):
            ordered = sorted(wanted)
            chunks = [
                AskEnds(leader, tuple(ordered[at : at + PARTITIONS_AT_ONCE]))
                for at in range(0, len(ordered), PARTITIONS_AT_ONCE)
            ]
            self._ends_in_flight[leader] = now, len(chunks)
            questions += chunks
        return questions

    def next_deadline(self) -> float | None:
        """When :meth:`next_questions` is to be called without an answer; None: not before one."""
        return self._gathers_until if self._gathers and self._settled else None

    def close(self, groups: Collection[str], now: float) -> None:
        """Wait no longer: groups that only miss ends get their reading, with the reason at those partitions.

        The others have failed for now. Their commits may still come, and then they get their reading.
        """
        for group in groups:
            asked = self._asked.get(group)
            if asked is None:
                continue
            if asked.commits is not None:
                self._finish(group, asked, now)
            elif now - asked.at >= SLOW_AFTER_S:
                self._note_failure(group, Unknown(Why.NO_ANSWER, f"none for {now - asked.at:.1f} s"))

    def results(self, groups: Iterable[str], now: float) -> dict[str, Reading]:
        """What is known of these groups now."""
        found: dict[str, Reading] = {}
        for number, group in enumerate(dict.fromkeys(groups)):
            if number >= MAX_GROUPS:
                found[group] = Unknown(Why.TOO_MANY, f"more than {MAX_GROUPS} groups at once")
                continue
            why = self._failures.get(group)
            if why is None and group in self._asked:
                why = Unknown(Why.NO_ANSWER, f"none for {now - self._asked[group].at:.1f} s")
            if why is not None and why.why is Why.NO_ANSWER and self._refused is not None:
                refused_at, refused = self._refused
                why = refused if now - refused_at <= _REFUSED_FOR_S else why
            reading = self._readings.get(group)
            if reading is None:
                found[group] = why or Unknown(Why.NO_ANSWER, "not asked yet")
            else:
                found[group] = reading if why is None else msgspec.structs.replace(reading, stale=why)
        return found

    # -- answers -----------------------------------------------------------------------------------------------

    def answered(self, answer: Commits | Leaders | Ends, now: float) -> None:
        """An answer has come. Answers to what was given up change nothing."""
        match answer:
            case Commits(group, commits):
                self._take_commits(group, commits, now)
            case Leaders(topic, leaders):
                self._topics_in_flight.pop(topic, None)
                known = leaders if isinstance(leaders, Unknown) else dict(leaders)
                self._leaders[topic] = _KnownLeaders(now, known)
                self._go_on(topic)
            case Ends(leader, ends):
                self._take_ends(leader, ends, now)

    def account_refused(self, detail: str, now: float) -> None:
        """A broker does not accept the account, or librdkafka does not accept its properties."""
        self._refused = now, Unknown(Why.BAD_ACCOUNT, detail)

    def lose(self, why: Unknown) -> None:
        """Nothing that is in flight will be answered."""
        for group in [*self._asked]:
            self._fail(group, why)
        self._topics_in_flight.clear()
        self._ends_in_flight.clear()

    @property
    def in_flight_since(self) -> float | None:
        """When the oldest group was asked that has no reading yet."""
        return min((asked.at for asked in self._asked.values()), default=None)

    def _take_commits(self, group: str, commits: tuple[Commit, ...] | Unknown, now: float) -> None:
        asked = self._asked.get(group)
        self._gathers.discard(group)
        if asked is None or asked.commits is not None:
            return
        if isinstance(commits, Unknown):
            self._fail(group, commits)
        elif len(commits) > MAX_PARTITIONS:
            self._fail(group, Unknown(Why.TOO_MANY, f"commits in {len(commits)} partitions"))
        else:
            asked.commits = {one.partition: one for one in commits}
            asked.read_at = now
            self._settled.add(group)

    def _take_ends(self, leader: int, ends: tuple[End, ...], now: float) -> None:
        since, due = self._ends_in_flight.get(leader, (now, 1))
        if due > 1:
            self._ends_in_flight[leader] = since, due - 1
        else:
            self._ends_in_flight.pop(leader, None)
        for end in ends:
            self._ends[end.partition] = _KnownEnd(now, end)
            known = self._leaders.get(end.partition.topic)
            if isinstance(end.offset, Unknown) and known is not None:  # it may be led by another
                self._leaders[end.partition.topic] = msgspec.structs.replace(
                    known, at=now - 2 * _LEADERS_FOR_S
                )
        if due <= 1:
            self._go_on(leader)

    def _go_on(self, with_answer: str | int) -> None:
        for group, asked in self._asked.items():
            if with_answer in asked.waits_for:
                asked.waits_for.discard(with_answer)
                if not asked.waits_for:
                    self._settled.add(group)

    # -- one group ---------------------------------------------------------------------------------------------

    def _look_at(
        self,
        group: str,
        asked: _Asked,
        topics: set[str],
        partitions: dict[int, set[Partition]],
        now: float,
    ) -> None:
        """Find out what a group with commits still needs; if it is nothing, its reading is there."""
        assert asked.commits is not None  # noqa: S101  it is settled
        for topic in {partition.topic for partition in asked.commits}:
            known = self._leaders.get(topic)
            if known is None or not known.is_fresh(asked.at, now):
                since = self._topics_in_flight.get(topic)
                if since is None:
                    topics.add(topic)
                    asked.waits_for.add(topic)
                elif not _is_slow(since, asked):
                    asked.waits_for.add(topic)
        if asked.waits_for:
            return
        for partition, leader in self._led(asked.commits).items():
            if leader is None or self._is_end_fresh(partition, asked, now):
                continue
            in_flight = self._ends_in_flight.get(leader)
            if in_flight is None:
                partitions.setdefault(leader, set()).add(partition)
            elif _is_slow(in_flight[0], asked):
                continue
            asked.waits_for.add(leader)
        if not asked.waits_for:
            self._finish(group, asked, now)

    def _led(self, commits: Iterable[Partition]) -> dict[Partition, int | None]:
        """All partitions of the topics in which there are commits, with their leaders."""
        found: dict[Partition, int | None] = dict.fromkeys(commits)
        for topic in {partition.topic for partition in found}:
            known = self._leaders.get(topic)
            if known is not None and not isinstance(known.leaders, Unknown):
                found |= {Partition(topic, number): leader for number, leader in known.leaders.items()}
        return found

    def _is_end_fresh(self, partition: Partition, asked: _Asked, now: float) -> bool:
        known = self._ends.get(partition)
        return known is not None and (known.at >= asked.at or now - known.at <= FRESH_S)

    def _finish(self, group: str, asked: _Asked, now: float) -> None:
        assert asked.commits is not None  # noqa: S101  it is settled
        led = self._led(asked.commits)
        del self._asked[group]
        self._failures.pop(group, None)
        if len(led) > MAX_PARTITIONS:
            self._note_failure(group, Unknown(Why.TOO_MANY, f"{len(led)} partitions"))
            return
        partitions = {
            partition: self._partition(partition, leader, asked, now)
            for partition, leader in sorted(led.items())
        }
        self._keep(GroupLag(group_id=group, read_at=asked.read_at, partitions=partitions))

    def _partition(self, partition: Partition, leader: int | None, asked: _Asked, now: float) -> PartitionLag:
        assert asked.commits is not None  # noqa: S101  it is settled
        commit = asked.commits.get(partition)
        end: int | Unknown
        end_epoch = None
        if self._is_end_fresh(partition, asked, now):
            known = self._ends[partition].end
            end, end_epoch = known.offset, known.epoch
        elif leader is not None:
            end = Unknown(Why.NO_ANSWER, f"broker {leader} has not answered")
        else:
            end = self._why_no_leader(partition)
        return PartitionLag(
            committed=None if commit is None else commit.offset,
            committed_epoch=None if commit is None else commit.epoch,
            end=end,
            end_epoch=end_epoch,
        )

    def _why_no_leader(self, partition: Partition) -> Unknown:
        known = self._leaders.get(partition.topic)
        if known is None:
            return Unknown(Why.NO_ANSWER, "no broker has said who leads it")
        if isinstance(known.leaders, Unknown):
            return known.leaders
        if partition.number not in known.leaders:
            return Unknown(Why.NO_TOPIC, f"the topic has {len(known.leaders)} partitions")
        return Unknown(Why.NO_LEADER)

    def _fail(self, group: str, why: Unknown) -> None:
        self._asked.pop(group, None)
        self._gathers.discard(group)
        self._note_failure(group, why)

    def _note_failure(self, group: str, why: Unknown) -> None:
        self._failures[group] = why
        self._failures.move_to_end(group)
        while len(self._failures) > 2 * MAX_GROUPS:
            self._failures.popitem(last=False)

    # -- what is kept ------------------------------------------------------------------------------------------

    def _keep(self, reading: GroupLag) -> None:
        before = self._readings.pop(reading.group_id, None)
        self._kept_partitions += len(reading.partitions) - (0 if before is None else len(before.partitions))
        self._readings[reading.group_id] = reading
        while len(self._readings) > 1 and (
            len(self._readings) > 2 * MAX_GROUPS or self._kept_partitions > MAX_PARTITIONS_IN_ALL
        ):
            _, dropped = self._readings.popitem(last=False)
            self._kept_partitions -= len(dropped.partitions)

    def _is_fresh(self, group: str, now: float) -> bool:
        reading = self._readings.get(group)
        return reading is not None and group not in self._failures and now - reading.read_at <= FRESH_S

    def _forget_old(self, now: float) -> None:
        self._ends = {at: one for at, one in self._ends.items() if now - one.at <= FRESH_S}
        self._leaders = {
            topic: one for topic, one in self._leaders.items() if now - one.at <= 10 * _LEADERS_FOR_S
        }


def _is_slow(since: float, asked: _Asked) -> bool:
    """Whether what is in flight since then was slow already when the group was asked: then it is not waited for."""
    return since < asked.at - SLOW_AFTER_S
