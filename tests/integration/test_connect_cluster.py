"""A Connect cluster of three workers loses one, grows, is reconfigured and restarted, through the proxy and without it.

Its connector counts, and writes each number exactly once (KIP-618), so what the topic holds in the end is known. When
each task ran is what the tasks themselves have said: none on two workers. It takes minutes; test_connect_workers.py has
two workers, of which one is killed.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.broker import Kafka
from support.connect import Running, Workers, committed_values
from support.entry import Proxy, running_proxy
from support.ownership import overlaps
from support.waiting import eventually

from tools.connect_worker import worker

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(900)]

CONNECTOR = "numbers"
TASKS, MORE_TASKS = 6, 8
PARTITIONS = 3
AHEAD = 300
"""How many numbers further than any task has counted all of them are to end: half a minute, to be told so."""

both = pytest.mark.parametrize("behind_proxy", [False, True], ids=["direct", "proxy"])


@pytest.fixture
def proxy(kafka, folder) -> Iterator[Proxy]:
    with running_proxy(kafka.bootstrap, folder / "proxy", policy="default: translate\n") as proxy:
        yield proxy


class Cluster(Workers):
    """Workers of one group that enter at ``bootstrap``, and their counting connector."""

    def __init__(self, kafka: Kafka, proxy: Proxy | None, group: str, folder: Path) -> None:
        super().__init__(kafka, (kafka if proxy is None else proxy).bootstrap, group, folder, delay_ms=3_000)
        self.proxy = proxy
        self.topic = kafka.new_topic("numbers", partitions=PARTITIONS)
        self._config = {"connector.class": worker.NUMBERS.stem, "topic": self.topic, "tasks.max": str(TASKS)}

    def configure(self, **more: object) -> None:
        """Write the connector's configuration at a worker that is not the leader."""
        self._config |= {key.replace("_", "."): str(value) for key, value in more.items()}
        self.follower().configure(CONNECTOR, self._config)

    def wait_until_shared(self, tasks: int) -> Running:
        """Wait until the connector and so many tasks run, spread over the workers, as REST API and proxy say."""

        def shared() -> Running | None:
            running = self.alive[0].running()
            wanted = {CONNECTOR, *(f"{CONNECTOR}-{number}" for number in range(tasks))}
            if running is None or set().union(*running.values()) != wanted:
                return None
            if running.keys() != {one.url for one in self.alive}:
                return None
            return running if self.proxy is None or self.shown() == running else None

        return eventually(shared, what=f"{tasks} tasks run, spread", timeout_s=90, between_s=0.5)

    def shown(self) -> Running:
        """What the proxy shows of each worker."""
        assert self.proxy is not None
        group = self.proxy.group(self.group)
        return {
            member["worker"]["url"]: {
                topic["topic"] if index < 0 else f"{topic['topic']}-{index}"
                for topic in member["partitions"]
                for index in topic["partitions"]
            }
            for member in group["members"]
            if member["worker"] is not None
        }

    def written(self) -> dict[str, list[int]]:
        """{task: the numbers in the topic, in its order}, without what was aborted or is not committed yet."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for value in committed_values(self.kafka, self.topic, PARTITIONS):
            task, number = value.split(":")
            found[task].append(int(number))
        return found

    def wait_until_more_is_written(self) -> dict[str, list[int]]:
        """Wait until every task has gone on counting."""
        before = self.written()
        return eventually(
            self.written,
            lambda now: len(now) >= TASKS and all(len(now[task]) > len(before[task]) for task in now),
            what="every task has gone on",
            between_s=0.5,
        )


@pytest.fixture
def cluster(kafka, proxy, group, folder, behind_proxy) -> Iterator[Cluster]:
    cluster = Cluster(kafka, proxy if behind_proxy else None, group, folder)
    yield cluster
    for one in cluster.workers:
        one.kill()


@both
def test_a_cluster_loses_no_record_and_runs_no_task_twice(cluster):
    for _ in range(3):
        cluster.grow()
    cluster.configure()
    cluster.wait_until_shared(TASKS)
    cluster.wait_until_more_is_written()

    cluster.leader().kill()  # who has to assign what it ran itself
    cluster.wait_until_shared(TASKS)
    cluster.wait_until_more_is_written()

    cluster.grow()
    cluster.wait_until_shared(TASKS)
    cluster.configure(tasks_max=MORE_TASKS)
    cluster.wait_until_shared(MORE_TASKS)
    cluster.wait_until_more_is_written()

    for one in cluster.alive:
        one.stop()
        one.start()
        cluster.wait_until_shared(MORE_TASKS)
    until = max(max(numbers) for numbers in cluster.wait_until_more_is_written().values()) + AHEAD
    cluster.configure(until=until)

    expected = {str(task): list(range(until)) for task in range(MORE_TASKS)}
    eventually(
        lambda: {task: len(set(numbers)) for task, numbers in cluster.written().items()},
        lambda counts: counts == dict.fromkeys(expected, until),
        what="every task has counted to its end",
        timeout_s=120,
        between_s=1,
    )
    assert cluster.written() == expected
    assert overlaps(log for one in cluster.workers for log in one.task_logs()) == []
