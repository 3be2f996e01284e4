"""Workers of Kafka Connect whose group the proxy hosts (`mode: host`), and the same at the broker (`mode: observe`).

Twenty connectors; each task says itself when it runs, and one connector's records are written exactly once (KIP-618),
so what its topic holds in the end is known. It takes minutes; the histories of
tests/hosting/groups/connect/ are in every run.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.broker import Kafka
from support.connect import Running, Workers, committed_values
from support.entry import running_proxy
from support.ownership import overlaps
from support.waiting import eventually

from tools.connect_worker import worker

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(900)]

CONNECTOR = "numbers"
OTHERS = tuple(f"other{number}" for number in range(19))
TASKS, MORE_TASKS = 4, 6
PARTITIONS = 3
AHEAD = 200
"""How many numbers further than any task has counted all of them are to end: 20 seconds, to be told so."""

POLICY = """\
default: observe
rules:
  - {{pattern: "g-.*", mode: {mode}}}
"""


@dataclass(frozen=True)
class Change:
    """What a change has taken until everything ran again: JoinGroups, and the workers that sent them."""

    joins: int
    joined: frozenset[str]
    changed: frozenset[str]
    """Those that run something else, have run something else meanwhile, or have another leader."""


class Cluster(Workers):
    """Workers of one group behind a proxy, and their connectors."""

    def __init__(self, kafka: Kafka, bootstrap: str, group: str, folder: Path) -> None:
        super().__init__(kafka, bootstrap, group, folder, delay_ms=4_000)
        self.topic = kafka.new_topic("numbers", partitions=PARTITIONS)
        self.other_topic = kafka.new_topic("others", partitions=1)
        self.changes: dict[str, Change] = {}
        self._tasks = TASKS
        self._config = {"connector.class": worker.NUMBERS.stem, "topic": self.topic}

    def configure(self, tasks: int, **more: object) -> None:
        """Write the connector's configuration at a worker that is not the leader."""
        self._tasks = tasks
        self._config |= {"tasks.max": str(tasks)} | {key: str(value) for key, value in more.items()}
        self.follower().configure(CONNECTOR, self._config)

    def configure_others(self) -> None:
        """Create nineteen more, in the same way."""
        config = {"connector.class": worker.NUMBERS.stem, "topic": self.other_topic, "tasks.max": "1"}
        for name in OTHERS:
            self.follower().configure(name, config)

    def wait_until_shared(self) -> Running:
        """Wait until all connectors and tasks run, spread over the workers, as REST API and proxy say."""
        wanted = {CONNECTOR, *(f"{CONNECTOR}-{number}" for number in range(self._tasks))}
        wanted |= {part for name in OTHERS for part in (name, f"{name}-0")}

        def shared() -> Running | None:
            running = self.alive[0].running()
            if running is None or set().union(*running.values()) != wanted:
                return None
            return running if running.keys() == {one.url for one in self.alive} else None

        return eventually(shared, what=f"{len(wanted)} parts run, spread", timeout_s=120, between_s=0.5)

    def written(self) -> dict[str, list[int]]:
        """{task: the numbers in the topic, in its order}, without what was aborted or is not committed yet."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for value in committed_values(self.kafka, self.topic, PARTITIONS):
            task, number = value.split(":")
            found[task].append(int(number))
        return found

    @contextmanager
    def change(self, what: str) -> Iterator[None]:
        """Note what a change takes."""
        before = {one: len(one.heard()) for one in self.workers}
        yield
        self.wait_until_shared()
        heard = {one.name: one.heard()[max(0, before.get(one, 0) - 1) :] for one in self.workers}
        new = {one.name: len(one.heard()) - before.get(one, 0) for one in self.workers}
        self.changes[what] = Change(
            joins=sum(new.values()),
            joined=frozenset(name for name, count in new.items() if count),
            changed=frozenset(name for name, all_of_it in heard.items() if len(set(all_of_it)) > 1),
        )

    def begin(self) -> None:
        """Start three workers, with all connectors."""
        for _ in range(3):
            self.grow()
        self.configure(TASKS)
        self.configure_others()
        self.wait_until_shared()

    def end(self) -> None:
        """Have every task count to an end: each number is written once, and no task has run on two workers."""
        until = max(max(numbers) for numbers in self.written().values()) + AHEAD
        self.configure(self._tasks, until=until)
        expected = {str(task): list(range(until)) for task in range(self._tasks)}
        eventually(
            lambda: {task: len(set(numbers)) for task, numbers in self.written().items()},
            lambda counts: counts == dict.fromkeys(expected, until),
            what="every task has counted to its end",
            timeout_s=120,
            between_s=1,
        )
        assert self.written() == expected
        assert overlaps(log for one in self.workers for log in one.task_logs()) == []

    def story(self) -> None:
        """A worker comes, one is killed, all are restarted one by one, the leader is killed, and tasks are added."""
        self.begin()
        with self.change("a worker comes"):
            self.grow()
        with self.change("a worker is killed"):
            self.follower().kill()
        for one in self.alive:
            with self.change(f"{one.name} is restarted"):
                one.stop()
                one.start()
        with self.change("the leader is killed"):
            self.leader().kill()

        self.configure(MORE_TASKS)
        self.wait_until_shared()
        self.end()

    def stop(self) -> None:
        """Kill all workers."""
        for one in self.workers:
            one.kill()


@pytest.fixture
def run(kafka, folder, group) -> Iterator:
    clusters: list[Cluster] = []

    def told(mode: str) -> Cluster:
        policy = POLICY.format(mode=mode)
        (folder / mode).mkdir()
        with running_proxy(
            kafka.bootstrap, folder / mode / "proxy", policy=policy, more={"experimental": True}
        ) as proxy:
            cluster = Cluster(kafka, proxy.bootstrap, f"{group}-{mode}", folder / mode)
            clusters.append(cluster)
            cluster.story()
            members = kafka.describe_classic(cluster.group).members
            assert (len(members) == 0) == (mode == "host")
            cluster.stop()
            return cluster

    yield told
    for cluster in clusters:
        cluster.stop()


def test_hosted_workers_run_each_task_once_and_rejoin_less(run):
    hosted, classic = run("host"), run("observe")
    for what, change in hosted.changes.items():
        print(f"{what}: hosted {change}, classic {classic.changes.get(what)}")
    for what, change in hosted.changes.items():
        assert len(change.joined) <= len(change.changed) + 1, what
    assert sum(one.joins for one in hosted.changes.values()) < sum(
        one.joins for one in classic.changes.values()
    )
