"""Scripts made of random steps, the same ones for the same seed.

Acknowledgements that come with a fetch neither release records nor make room: Kafka persists them while it fetches, so
whether that fetch sees what they release is a matter of luck. Nor are records of two partitions limited together: which
of them comes first depends on hashes, and on what a broker remembers of its log.
"""

import random
from collections.abc import Sequence

from tests.coordinator.share_partitions.play.core_player import PARTITIONS
from tests.coordinator.share_partitions.play.steps import (
    Acknowledge,
    Acknowledgements,
    DeleteRecords,
    Fetch,
    Produce,
    Script,
    Settings,
    Step,
)

STEPS = 40
MEMBERS = ("a", "b", "c")
TERMINAL = (0, 1, 1, 3)
ANY = (*TERMINAL, 2, 2, 2)
RENEWALS = (4, 4, 4)


class RandomScript:
    """Members that fetch, acknowledge what may be theirs, and open and close their sessions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311  the same steps in every run
        self.ends = dict.fromkeys(PARTITIONS, 0)
        self.log_starts = dict.fromkeys(PARTITIONS, 0)
        self.bases: dict[int, list[int]] = {number: [] for number in PARTITIONS}
        self.sessions: dict[str, tuple[int, ...]] = {}
        self.settings = Settings(
            delivery_count_limit=self.random.choice([2, 3, 5, 7, 10]),
            max_record_locks=self.random.choice([100, 2_000]),
        )

    def script(self) -> Script:
        steps: list[Step] = [self._produces() for _ in range(2)]
        for _ in range(STEPS):
            make = self.random.choices(
                [self._produces, self._fetches, self._acknowledges, self._closes, self._deletes],
                weights=[12, 45, 38, 4, 2],
            )[0]
            steps.append(make())
        return Script(steps, self.settings)

    def _produces(self) -> Step:
        partition = self.random.choice(PARTITIONS)
        sizes = tuple(self.random.choice([1, 2, 5, 8, 30]) for _ in range(self.random.randint(1, 3)))
        for size in sizes:
            self.bases[partition].append(self.ends[partition])
            self.ends[partition] += size
        return Produce(partition, sizes)

    def _fetches(self) -> Step:
        member = self.random.choice(MEMBERS)
        is_new = member not in self.sessions
        partitions = self.sessions.setdefault(member, self._some_partitions())
        comes_along = not is_new and self.settings.max_record_locks > 100 and self.random.random() < 0.3
        return Fetch(
            member,
            add=partitions if is_new else (),
            acknowledge=self._acknowledgements(TERMINAL, partitions) if comes_along else {},
            max_records=self.random.choice([1, 3, 10, 500]) if len(partitions) == 1 else 500,
            batch_size=self.random.choice([1, 5, 500]),
            exactly=self.random.random() < 0.4,
        )

    def _acknowledges(self) -> Step:
        member = self.random.choice(MEMBERS)
        if member not in self.sessions:
            return self._fetches()
        is_renew = self.random.random() < 0.1
        kinds = (*ANY, *RENEWALS) if is_renew else ANY
        return Acknowledge(member, self._acknowledgements(kinds, PARTITIONS), is_renew_ack=is_renew)

    def _closes(self) -> Step:
        member = self.random.choice(MEMBERS)
        if member not in self.sessions:
            return self._produces()
        del self.sessions[member]
        return Acknowledge(member, self._acknowledgements(ANY, PARTITIONS), epoch=-1)

    def _deletes(self) -> Step:
        partition = self.random.choice(PARTITIONS)
        start = self.random.choice([0, *self.bases[partition]])
        if start <= self.log_starts[partition]:
            return self._produces()
        self.log_starts[partition] = start
        return DeleteRecords(partition, start)

    def _acknowledgements(self, kinds: Sequence[int], among: Sequence[int]) -> Acknowledgements:
        return {
            partition: [self._batch(partition, kinds)]
            for partition in self._some_partitions()
            if self.ends[partition] and partition in among
        }

    def _batch(self, partition: int, kinds: Sequence[int]) -> tuple[int, int, list[int]]:
        first = self.random.randrange(self.ends[partition])
        last = min(first + self.random.choice([0, 0, 1, 2, 4, 10]), self.ends[partition] - 1)
        each = self.random.random() < 0.3
        return first, last, [self.random.choice(kinds) for _ in range(last - first + 1 if each else 1)]

    def _some_partitions(self) -> tuple[int, ...]:
        return tuple(self.random.sample(PARTITIONS, self.random.randint(1, len(PARTITIONS))))
