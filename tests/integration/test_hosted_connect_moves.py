"""Workers of Kafka Connect whose group goes to the proxy and back while their tasks run, and follows a host that dies.

Twenty connectors on three workers, as in test_hosted_connect.py. The brokers have Kafka's own settings for groups, but
for one that does not wait for the others when the first worker comes back to it.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import pytest
from support.broker import Kafka
from support.entry import Proxy, running_proxy
from support.ownership import Partition, owned_now
from support.waiting import eventually
from test_hosted_connect import CONNECTOR, OTHERS, TASKS, Cluster
from test_hosted_fleet import Service, hosted_members, member_log, needs_haproxy
from test_hosted_groups import EXPERIMENTAL, MODE

from tools.kafka.settings import GROUP_DEFAULTS

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(900)]

WORKERS = 3
ALL_TASKS = {Partition(CONNECTOR, number) for number in range(TASKS)} | {
    Partition(name, 0) for name in OTHERS
}


BECOMES_HOST = "by the log its host is: begins"
"""What a replica logs that is not yet the host, but next."""
KAFKAS_OWN, NONE = "3000", "0"
"""For how long (ms) a broker waits for others when the first member joins: a stock one, and many in containers."""


@pytest.fixture(scope="module")
def kafka(request, own_kafka_of_module) -> Kafka:
    delay_ms = getattr(request, "param", KAFKAS_OWN)
    cluster = own_kafka_of_module(overrides=GROUP_DEFAULTS | {"group.initial.rebalance.delay.ms": delay_ms})
    return Kafka(cluster.bootstrap, source="maven", version=cluster.version)


class Moving(Cluster):
    """Workers whose group moves between the broker and who hosts it."""

    def wait_until_at(self, proxies: Sequence[Proxy], mode: str) -> None:
        """Wait until the group is where the mode says, with all workers, and nowhere else."""
        expected = (0, WORKERS) if mode == "host" else (WORKERS, 0)
        eventually(
            lambda: (
                len(self.kafka.describe_classic(self.group).members),
                sum(hosted_members(one) for one in proxies),
            ),
            lambda members: members == expected,
            what=f"members at the broker and hosted, in mode {mode}",
            timeout_s=120,
            between_s=0.2,
        )

    def wait_until_all_go_on(self) -> None:
        """Wait until everything runs by the REST API and by what the tasks themselves say, each once, and counts on."""
        self.wait_until_shared()
        eventually(
            self.tasks_that_run,
            lambda tasks: sorted(tasks) == sorted(ALL_TASKS),
            what="each task runs once, by what tasks say",
        )
        before = {task: len(numbers) for task, numbers in self.written().items()}
        eventually(
            lambda: {task: len(numbers) for task, numbers in self.written().items()},
            lambda now: len(now) == TASKS and all(now[task] > before.get(task, 0) for task in now),
            what="every task has gone on counting",
            between_s=0.5,
        )

    def tasks_that_run(self) -> list[Partition]:
        """The tasks that run on living workers, as they say: one that runs on two workers is twice in it."""
        return list(chain.from_iterable(owned_now(one.task_logs()[-1]) for one in self.alive))

    def stops(self) -> int:
        """How often a task has been stopped."""
        logs = chain.from_iterable(one.task_logs() for one in self.workers)
        return sum(event.kind == "revoked" for event in chain.from_iterable(logs))

    def go_in_and_back(self, proxies: Sequence[Proxy], set_mode: Callable[[str], None]) -> None:
        """Go in, back and in again, and change a configuration at each side. No task stops for a move."""
        for number, mode in enumerate(("host", "observe", "host")):
            before = self.stops()
            set_mode(mode)
            self.wait_until_at(proxies, mode)
            self.wait_until_all_go_on()
            print(f"{number}, {mode}: {self.stops() - before} tasks were stopped")
            assert self.stops() == before
            self.configure(TASKS, round=number)
            eventually(
                lambda before=before: self.stops() == before + TASKS,
                what="the configuration restarts all tasks",
            )
            self.wait_until_all_go_on()


@pytest.fixture
def moving(kafka, group, folder) -> Iterator[Callable[[str], Moving]]:
    clusters: list[Moving] = []

    def start(bootstrap: str) -> Moving:
        clusters.append(Moving(kafka, bootstrap, group, folder))
        clusters[-1].begin()
        return clusters[-1]

    yield start
    for cluster in clusters:
        cluster.stop()


@pytest.mark.parametrize("kafka", [KAFKAS_OWN, NONE], indirect=True, ids=["waits", "does-not-wait"])
def test_live_workers_go_in_and_back(kafka, folder: Path, moving):
    policy = MODE.format(mode="observe")
    with running_proxy(kafka.bootstrap, folder / "proxy", policy=policy, more=EXPERIMENTAL) as proxy:
        cluster = moving(proxy.bootstrap)
        cluster.go_in_and_back(
            [proxy], lambda mode: (proxy.folder / "policy.yaml").write_text(MODE.format(mode=mode))
        )
        cluster.end()


@needs_haproxy
def test_live_workers_of_two_replicas_go_in_and_back(kafka, folder: Path, group, moving):
    with Service(kafka.bootstrap, folder, member_log(kafka, group), "observe").running() as service:
        cluster = moving(service.bootstrap)
        cluster.go_in_and_back(service.proxies, service.set_mode)
        cluster.end()


@needs_haproxy
def test_workers_follow_a_host_that_is_killed(kafka, folder: Path, group, moving):
    with Service(kafka.bootstrap, folder, member_log(kafka, group), "host").running() as service:
        cluster = moving(service.bootstrap)
        cluster.wait_until_at(service.proxies, "host")
        cluster.wait_until_all_go_on()
        before = cluster.stops()
        service.host().kill()
        cluster.wait_until_at(service.proxies, "host")
        cluster.wait_until_all_go_on()
        print(f"the host was killed: {cluster.stops() - before} tasks were stopped")
        cluster.follower().kill()
        cluster.grow()
        cluster.wait_until_all_go_on()
        cluster.end()


@needs_haproxy
def test_a_host_is_killed_while_live_workers_move(kafka, folder: Path, group, moving):
    """On the way in when all have left the broker and nobody is let in yet, on the way back before all have gone."""
    with Service(kafka.bootstrap, folder, member_log(kafka, group), "observe").running() as service:
        cluster = moving(service.bootstrap)

        def become_host() -> list[Proxy]:
            at_the_broker = kafka.describe_classic(group).members
            return (
                []
                if at_the_broker
                else [one for one in service.proxies if BECOMES_HOST in one.log.read_text()]
            )

        for mode, who in (("host", become_host), ("observe", lambda: [service.host()])):
            before = cluster.stops()
            service.set_mode(mode)
            (killed,) = eventually(who, what="a replica hosts the group, or is about to", between_s=0.2)
            killed.kill()
            cluster.wait_until_at(service.proxies, mode)
            cluster.wait_until_all_go_on()
            print(f"killed on the way to {mode}: {cluster.stops() - before} tasks were stopped")
            killed.start()
        cluster.end()
