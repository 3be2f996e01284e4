"""Scripts made of random steps, the same ones for the same seed."""

import random

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


class RandomScript:
    """Members that fetch, acknowledge what may be theirs, and open and close their sessions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311  the same steps in every run
        self.ends = dict.fromkeys(PARTITIONS, 0)
        self.log_starts = dict.fromkeys(PARTITIONS, 0)
        self.has_session: set[str] = set()
        self.at_first_fetch: set[str] = set()

    def script(self) -> Script:
        settings = Settings(
            delivery_count_limit=self.random.choice([2, 3, 5, 7, 10]),
            max_record_locks=self.random.choice([100, 2_000]),
        )
        steps: list[Step] = [self._produces() for _ in range(2)]
        for _ in range(STEPS):
            make = self.random.choices(
                [self._produces, self._fetches, self._acknowledges, self._closes, self._deletes],
                weights=[12, 45, 38, 4, 2],
            )[0]
            steps.append(make())
        return Script(steps, settings)

    def _produces(self) -> Step:
        partition = self.random.choice(PARTITIONS)
        sizes = tuple(self.random.choice([1, 2, 5, 8, 30]) for _ in range(self.random.randint(1, 3)))
        self.ends[partition] += sum(sizes)
        return Produce(partition, sizes)

    def _fetches(self) -> Step:
        member = self.random.choice(MEMBERS)
        limits = {
            "max_records": self.random.choice([1, 3, 10, 500]),
            "batch_size": self.random.choice([1, 5, 500]),
            "exactly": self.random.random() < 0.4,
        }
        if member not in self.has_session:
            self.has_session.add(member)
            return Fetch(member, 0, add=self._some_partitions(), **limits)  # type: ignore[arg-type]
        acknowledge = self._acknowledgements() if self.random.random() < 0.3 else {}
        return Fetch(member, acknowledge=acknowledge, **limits)  # type: ignore[arg-type]

    def _acknowledges(self) -> Step:
        member = self.random.choice(MEMBERS)
        if member not in self.has_session:
            return self._fetches()
        is_renew = self.random.random() < 0.1
        return Acknowledge(member, self._acknowledgements(can_renew=is_renew), is_renew_ack=is_renew)

    def _closes(self) -> Step:
        member = self.random.choice(MEMBERS)
        if member not in self.has_session:
            return self._produces()
        self.has_session.discard(member)
        return Acknowledge(member, self._acknowledgements(), epoch=-1)

    def _deletes(self) -> Step:
        partition = self.random.choice(PARTITIONS)
        start = self.random.randint(self.log_starts[partition], self.ends[partition])
        if start == self.log_starts[partition]:
            return self._produces()
        self.log_starts[partition] = start
        return DeleteRecords(partition, start)

    def _acknowledgements(self, *, can_renew: bool = False) -> Acknowledgements:
        return {
            partition: [self._batch(partition, can_renew=can_renew)]
            for partition in self._some_partitions()
            if self.ends[partition]
        }

    def _batch(self, partition: int, *, can_renew: bool) -> tuple[int, int, list[int]]:
        kinds = [0, 1, 1, 2, 2, 2, 3] + ([4, 4, 4] if can_renew else [])
        first = self.random.randrange(self.ends[partition])
        last = min(first + self.random.choice([0, 0, 1, 2, 4, 10]), self.ends[partition] - 1)
        each = self.random.random() < 0.3
        return first, last, [self.random.choice(kinds) for _ in range(last - first + 1 if each else 1)]

    def _some_partitions(self) -> tuple[int, ...]:
        return tuple(self.random.sample(PARTITIONS, self.random.randint(1, len(PARTITIONS))))
