"""Real workers of Kafka Connect beside new ones in one group of the embedded broker, rolled there and back.

Twenty connectors. Each task says itself when it runs; a new worker, which no Kafka has, holds a lease instead.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.connect import Worker
from support.embedded import CONFIG, Embedded
from support.find_broker import wanted_version
from support.new_connect_worker import NewWorker
from support.ownership import Partition, overlaps, owned_now
from support.waiting import eventually

from tools.connect_worker import worker

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(1_800)]

WORKERS, CONNECTORS = 3, 20
ALL = frozenset(Partition(f"c{number}", 0) for number in range(CONNECTORS))


class Cluster:
    """The workers of one group, of both kinds."""

    def __init__(self, broker: Embedded, group: str, folder: Path) -> None:
        self.broker, self.group, self.folder = broker, group, folder
        self.workers: list[Worker | NewWorker] = []
        folder.mkdir()

    def add_classic(self) -> Worker:
        started = Worker(
            wanted_version(),
            self.broker.bootstrap,
            self.group,
            self.folder,
            f"w{len(self.workers) + 1}",
            plugin_discovery="service_load",  # a start without a search of all classes
            scheduled_rebalance_max_delay_ms=2_000,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
        )
        self.workers.append(started)
        return started

    def add_new(self) -> NewWorker:
        started = NewWorker(self.broker.bootstrap, self.group, self.folder, f"n{len(self.workers) + 1}")
        self.workers.append(started)
        return started

    def begin(self) -> None:
        first = self.add_classic()
        for number in range(CONNECTORS):
            config = {"connector.class": worker.NUMBERS.stem, "topic": self.group, "tasks.max": "1"}
            first.configure(f"c{number}", config)
        for _ in range(WORKERS - 1):
            self.add_classic()
        self.wait(WORKERS)

    def wait(self, workers: int) -> None:
        """Wait until all tasks run or are held, by so many workers."""

        def shared() -> bool:
            held = [owned_now(log) for one in self.workers for log in one.task_logs()]
            return sum(map(len, held)) == CONNECTORS and sum(map(bool, held)) == workers

        try:
            eventually(shared, what=f"{CONNECTORS} tasks on {workers} workers", timeout_s=180, between_s=0.5)
        finally:
            assert [one.errors for one in self.workers if isinstance(one, NewWorker) and one.errors] == []

    def roll(self, olds: list, add) -> list:
        """Replace workers one by one."""
        added = []
        for old in olds:
            added.append(add())
            self.wait(WORKERS + 1)
            old.stop()
            self.wait(WORKERS)
        return added

    def stop(self) -> None:
        for one in self.workers:
            one.kill()


@pytest.fixture
def broker() -> Iterator[Embedded]:
    with Embedded(nodes=1, config=msgspec.structs.replace(CONFIG, experimental_connect_groups=True)) as one:
        yield one


@pytest.fixture
def mixed(broker: Embedded, folder: Path) -> Iterator[Cluster]:
    broker.new_topic(partitions=1, name="mixed")
    cluster = Cluster(broker, "mixed", folder / "mixed")
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.stop()


def test_three_real_workers_are_rolled_to_the_new_protocol_and_back(mixed: Cluster):
    new = mixed.roll(list(mixed.workers), mixed.add_new)
    back = mixed.roll(new, mixed.add_classic)
    assert len(back) == WORKERS
    assert overlaps(log for one in mixed.workers for log in one.task_logs()) == []
