"""A seeded model of a migration, seen through the journals of all replicas.

Groups of eager and cooperative members rebalance, move between replicas, leave, expire; replicas are killed; clocks are
off. Things happen in true time; what a replica writes carries its own clock. Whatever happens here keeps the proxy's
promise, except for what is planted. Also the generator of the scale benchmark (`Plan.large`).
"""

import itertools
import json
import random
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

START_US = 1_790_000_000_000_000
MS, S = 1_000, 1_000_000
SESSION_US = 45 * S
SOFTWARE = ("apache-kafka-java/3.7.0", "librdkafka/2.8.0", "kafka-python/2.2.0", "")


class Plan(NamedTuple):
    """What to make. ``clock_error_us`` bounds how far each replica's clock is off, to either side."""

    seed: int
    groups: int = 6
    replicas: int = 3
    members: int = 4
    partitions: int = 8
    rounds: int = 12
    clock_error_us: int = 40 * MS
    skewed_us: int = 0
    """How far the first replica's clock is off beside that."""
    kills: int = 1
    lost: float = 0.0
    duplicated: float = 0.0
    violations: int = 0
    """How many groups get a violation planted."""
    slow: float = 0.3
    """How many adopted members say only after up to four seconds what they own."""
    prefix: str = ""

    @classmethod
    def large(cls, seed: int, rounds: int, prefix: str) -> "Plan":
        """A cell of a large fleet: replicas of its own, so that cells can be made at the same time."""
        return cls(
            seed,
            groups=50,
            members=5,
            partitions=12,
            rounds=rounds,
            prefix=prefix,
            duplicated=0.001,
            lost=0.0001,
            slow=0.0,
        )


class Planted(NamedTuple):
    """A partition that was given to ``second`` while ``first`` held it, for ``length_us`` (0: until it let go)."""

    group: str
    partition: int
    first: str
    second: str
    length_us: int


class Boot(NamedTuple):
    """A process from start to end, in true time."""

    replica: str
    boot: str
    start_us: int
    end_us: int


class Written(NamedTuple):
    """An event in true time; ``rest`` are its JSON fields without identity and time."""

    at_us: int
    number: int
    process: Boot
    rest: str
    is_member: bool


class Migration:
    """One run of the model; ``written`` is every event in true order, ``planted`` what must be found."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = random.Random(plan.seed)  # noqa: S311 - a model, no secret
        self.written: list[Written] = []
        self.planted: list[Planted] = []
        self._numbers = itertools.count()
        length_us = 20 * S + plan.rounds * 30 * S
        self.boots = self._boots(length_us)
        self.errors = {
            boot.replica: self.random.randint(-plan.clock_error_us, plan.clock_error_us)
            for boot in self.boots
        }
        self.errors[self.boots[0].replica] += plan.skewed_us
        for boot in self.boots:
            self.write(boot.start_us, boot, "started")
        for number in range(plan.groups):
            Group(self, number, planted=number < plan.violations).live()
        self.written.sort()

    def _boots(self, length_us: int) -> list[Boot]:
        boots = []
        for number in range(self.plan.replicas):
            replica = f"{self.plan.prefix}proxy-{number}"
            ends = sorted(self.random.randrange(length_us) for _ in range(self.plan.kills))
            start_us = 0
            for turn, end_us in enumerate([*ends, 2 * length_us]):
                boots.append(Boot(replica, f"b{turn}", start_us, end_us))
                start_us = end_us + 3 * S
        return boots

    def alive(self, at_us: int) -> list[Boot]:
        """The processes that run."""
        return [boot for boot in self.boots if boot.start_us < at_us < boot.end_us - S]

    def write(self, at_us: int, process: Boot, kind: str, rest: str = "", *, reason: str = "") -> None:
        """An event, unless its process is dead by then."""
        if not process.start_us <= at_us <= process.end_us:
            return
        rest = rest or NO_MEMBER
        text = f'"kind":"{kind}",{rest},"reason":{json.dumps(reason)}'
        self.written.append(Written(at_us, next(self._numbers), process, text, bool(rest is not NO_MEMBER)))

    def lines(self) -> Iterator[tuple[Boot, str]]:
        """Every line with its process, in true order. What is lost is followed by an event that says so."""
        seqs = dict.fromkeys(self.boots, 0)
        lost = dict.fromkeys(self.boots, 0)
        for event in self.written:
            process = event.process
            seqs[process] += 1
            if event.is_member and self.random.random() < self.plan.lost:
                lost[process] += 1
                continue
            if lost[process]:
                rest = f'"kind":"lost",{NO_MEMBER},"reason":"{lost[process]}"'
                lost[process] = 0
                yield process, self._line(event, seqs[process], rest)
                seqs[process] += 1
            line = self._line(event, seqs[process], event.rest)
            yield process, line
            if self.random.random() < self.plan.duplicated:
                yield process, line

    def _line(self, event: Written, seq: int, rest: str) -> str:
        process = event.process
        time_us = START_US + event.at_us + self.errors[process.replica]
        return f'{{"v":1,"replica":"{process.replica}","boot":"{process.boot}","seq":{seq},"time_us":{time_us},{rest}}}'

    def save(self, folder: Path, *, disorder: int = 0, per_file: int = 5_000) -> int:
        """Write the files that the replicas would write; ``disorder`` lines may change places. How many lines."""
        folder.mkdir(parents=True, exist_ok=True)
        open_files: dict[Boot, list[str]] = {}
        numbers = dict.fromkeys(self.boots, 0)
        count = 0
        for process, line in self.lines():
            count += 1
            waiting = open_files.setdefault(process, [])
            waiting.append(line)
            if len(waiting) >= per_file:
                self._finish(folder, process, numbers, waiting, disorder)
        for process, waiting in open_files.items():
            self._finish(folder, process, numbers, waiting, disorder)
        return count

    def _finish(
        self, folder: Path, process: Boot, numbers: dict[Boot, int], waiting: list[str], disorder: int
    ) -> None:
        numbers[process] += 1
        if disorder:
            keys = {number: number + self.random.randint(0, disorder) for number in range(len(waiting))}
            waiting[:] = [waiting[number] for number in sorted(keys, key=lambda number: keys[number])]
        name = f"{process.replica}.{process.boot}.{numbers[process]}.jsonl"
        (folder / name).write_text("".join(f"{line}\n" for line in waiting), encoding="utf-8")
        waiting.clear()


NO_MEMBER = (
    '"group":"","mode":"","protocol":"","member":"","instance":null,"client_id":null,"client_host":"","software":"",'
    '"generation":-1,"epoch":-1,"state":"","previous_state":"","partitions":[],"owned":null'
)


class Member:
    """A client: what it holds in truth, and which process serves it."""

    def __init__(self, name: str, process: Boot, cooperative: bool, software: str) -> None:
        self.name = name
        self.process = process
        self.cooperative = cooperative
        self.owned: set[int] = set()
        self.generation = -1
        self.state = "Stable"
        client = f'"client_id":"app","client_host":"10.0.0.7","software":"{software}"'
        self.about = f'"member":"{name}","instance":null,{client}'


class Group:
    """One group from its first member to its last."""

    def __init__(self, world: Migration, number: int, *, planted: bool) -> None:
        self.world = world
        self.random = world.random
        self.name = f"{world.plan.prefix}group-{number}"
        self.topic = f"{world.plan.prefix}topic-{number}"
        self.topic_id = f"id-{number}"
        self.plant = planted
        self.epoch = 0
        self.members: list[Member] = []
        self._names = itertools.count()

    def live(self) -> None:
        """Join, rebalance and fail, one round after another."""
        at_us = self.random.randint(10 * MS, 5 * S)
        for _ in range(self.world.plan.members):
            at_us = self.join(at_us + self.random.randint(1 * MS, 2 * S))
        planted_round = self.random.randrange(self.world.plan.rounds) if self.plant else -1
        for turn in range(self.world.plan.rounds):
            at_us += self.random.randint(1 * S, 20 * S)
            at_us = self.bring_back(at_us)
            if turn == planted_round:
                at_us = self.violate(at_us)
                continue
            at_us = self.random.choice(
                (self.shuffle, self.move, self.leave, self.expire, self.join, self.tick)
            )(at_us)
        if self.plant and not any(one.group == self.name for one in self.world.planted):
            self.violate(self.bring_back(at_us + S))

    # What happens.

    def join(self, at_us: int) -> int:
        """A new member."""
        if len(self.members) > self.world.plan.members + 2:
            return self.leave(at_us)
        process = self.random.choice(self.world.alive(at_us))
        name = f"{self.name}-m{next(self._names)}"
        member = Member(name, process, self.random.random() < 0.5, self.random.choice(SOFTWARE))
        self.members.append(member)
        return self.rebalance(at_us)

    def leave(self, at_us: int) -> int:
        """A member leaves in order."""
        return self.end(at_us, "left", 0)

    def expire(self, at_us: int) -> int:
        """A member dies; its process notices."""
        return self.end(
            at_us, self.random.choice(("session_expired", "rebalance_expired", "fenced")), SESSION_US
        )

    def end(self, at_us: int, kind: str, after_us: int) -> int:
        """A member's end, and who takes over."""
        if len(self.members) < 2:
            return self.join(at_us) if not self.members else self.tick(at_us)
        gone = self.members.pop(self.random.randrange(len(self.members)))
        at_us += after_us
        gone.owned = set()
        self.tell(at_us, gone, kind, owned=False, state="")
        return self.rebalance(at_us + self.random.randint(5 * MS, 500 * MS))

    def tick(self, at_us: int) -> int:
        """The epoch moves without a change for anybody."""
        self.epoch += 1
        for member in self.members:
            self.tell(at_us + self.random.randint(0, 50 * MS), member, "epoch_moved")
        return at_us + 100 * MS

    def move(self, at_us: int) -> int:
        """A client goes on to another replica; the old one notices when the session has passed."""
        member = self.random.choice(self.members) if self.members else None
        others = [
            boot for boot in self.world.alive(at_us) if member and boot.replica != member.process.replica
        ]
        if member is None or not others:
            return self.tick(at_us)
        at_us = self.rejoin(at_us, member, member.owned)
        former, late = member.process, self.random.random() < 0.5
        self.epoch += self.random.random() < 0.5
        was = member.generation
        after_us = self.adopt(
            at_us + self.random.randint(10 * MS, 60 * MS), member, self.random.choice(others)
        )
        if late:
            stale = self.about(member, generation=was, owned="[]", state="", previous="Stable")
            self.world.write(at_us + SESSION_US, former, "session_expired", stale)
        return after_us

    def shuffle(self, at_us: int) -> int:
        """The broker gives partitions to others."""
        self.random.shuffle(self.members)
        return self.rebalance(at_us)

    def bring_back(self, at_us: int) -> int:
        """Clients of dead processes come back at others, or never."""
        latest, vanished = at_us, False
        for member in list(self.members):
            if member.process.end_us - S > at_us:
                continue
            if len(self.members) > 2 and self.random.random() < 0.3:
                self.members.remove(member)
                vanished = True
                continue
            process = self.random.choice(self.world.alive(at_us))
            latest = max(latest, self.adopt(at_us + self.random.randint(0, 2 * S), member, process))
        return self.rebalance(latest + SESSION_US) if vanished else latest

    def violate(self, at_us: int) -> int:
        """Give a partition away while somebody holds it: for a millisecond, or because the revocation never came."""
        holders = [member for member in self.members if member.owned]
        if not holders or len(self.members) < 2:
            return self.violate(self.join(self.join(at_us)))
        first = holders[0]
        second = next(member for member in self.members if member is not first)
        partition = min(first.owned)
        short = self.random.random() < 0.5
        process = max(
            self.world.alive(at_us), key=lambda boot: boot.end_us
        )  # one clock for both, and no kill nearby
        for member in (first, second):
            if member.process != process:
                at_us = self.adopt(at_us + 500 * MS, member, process)
        at_us += 500 * MS
        release_us = at_us + (1 * MS if short else 5 * S)
        second.owned = second.owned | {partition}
        self.tell(at_us, second, "assigned", changed={partition})
        first.owned = first.owned - {partition}
        self.tell(release_us, first, "joined")
        self.world.planted.append(
            Planted(self.name, partition, first.name, second.name, 1 * MS if short else 5 * S)
        )
        return release_us + 200 * MS

    # How it happens.

    def rebalance(self, at_us: int) -> int:
        """Share the partitions out anew: first all that lose, then all that gain."""
        self.epoch += 1
        count = len(self.members)
        targets = {
            member.name: set(range(turn, self.world.plan.partitions, count))
            for turn, member in enumerate(self.members)
        }
        latest = at_us
        for member in self.members:
            lost = member.owned - targets[member.name]
            if lost:
                told_us = at_us + self.random.randint(1 * MS, 100 * MS)
                self.tell(told_us, member, "revoke_requested", changed=lost)
                latest = max(latest, self.rejoin(told_us, member, member.owned - lost))
        after = latest
        for member in self.members:
            if targets[member.name] - member.owned or member.generation < 0:
                start_us = latest + self.random.randint(1 * MS, 300 * MS)
                after = max(after, self.rejoin(start_us, member, targets[member.name]))
        return after

    def rejoin(self, at_us: int, member: Member, result: set[int]) -> int:
        """PrepareRebalance, JoinGroup, SyncGroup: the client keeps what it may and ends up with ``result``."""
        if member.generation >= 0:
            self.change(at_us, member, "PrepareRebalance")
            at_us += self.random.randint(1 * MS, 400 * MS)
        lost = member.owned - result
        member.owned = member.owned & result if member.cooperative else set()
        member.generation = self.epoch
        self.tell(at_us, member, "joined")
        if lost:
            self.tell(at_us, member, "revoked", changed=lost)
        self.change(at_us, member, "CompletingRebalance")
        at_us += self.random.randint(1 * MS, 50 * MS)
        gained = result - member.owned
        member.owned = set(result)
        if gained:
            self.tell(at_us, member, "assigned", changed=gained)
        self.change(at_us, member, "Stable")
        return at_us

    def adopt(self, at_us: int, member: Member, process: Boot) -> int:
        """Another process serves the client from now on."""
        member.process = process
        self.tell(at_us, member, "adopted", owned=False)
        slow = self.world.plan.slow
        after_us = self.random.randint(1 * MS, 4 * S) if slow and self.random.random() < slow else 1 * MS
        return self.rejoin(at_us + after_us, member, set(member.owned))

    # How it is told.

    def change(self, at_us: int, member: Member, state: str) -> None:
        """A change of state."""
        previous, member.state = member.state, state
        self.tell(at_us, member, "state_changed", previous=previous)

    def tell(
        self,
        at_us: int,
        member: Member,
        kind: str,
        *,
        changed: AbstractSet[int] = frozenset(),
        owned: bool = True,
        state: str | None = None,
        previous: str = "",
    ) -> None:
        """An event of a member."""
        ending = kind in ("left", "fenced", "session_expired", "rebalance_expired")
        text = self.partitions(member.owned) if owned else "[]" if ending else "null"
        state = member.state if state is None else state
        rest = self.about(
            member, generation=member.generation, owned=text, state=state, previous=previous, changed=changed
        )
        self.world.write(at_us, member.process, kind, rest)

    def about(
        self,
        member: Member,
        *,
        generation: int,
        owned: str,
        state: str,
        previous: str,
        changed: AbstractSet[int] = frozenset(),
    ) -> str:
        """The JSON fields."""
        return (
            f'"group":"{self.name}","mode":"translate","protocol":"translated",{member.about},'
            f'"generation":{generation},"epoch":{self.epoch},"state":"{state}","previous_state":"{previous}",'
            f'"partitions":{self.partitions(changed)},"owned":{owned}'
        )

    def partitions(self, numbers: AbstractSet[int]) -> str:
        """Partitions of the group's topic as the schema writes them."""
        if not numbers:
            return "[]"
        return f'[{{"topic":"{self.topic}","id":"{self.topic_id}","partitions":{sorted(numbers)}}}]'
