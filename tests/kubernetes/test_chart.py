"""The chart in a real cluster, in a namespace that is `restricted`, with a real Kafka."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.docs import pages
from tests.kubernetes.conftest import Kafka, helm
from tests.kubernetes.group import Group, Seen, pod
from tests.kubernetes.spark import PAGE as SPARK_PAGE
from tests.kubernetes.spark import RESULTS, TABLES, Outside, rows
from tests.kubernetes.walkthrough import PAGE, Reader
from tools.chart.render import CHART
from tools.kubernetes import network
from tools.kubernetes.kafka import install
from tools.kubernetes.kubectl import kubectl, succeeds
from tools.kubernetes.paths import ClusterError

pytestmark = [pytest.mark.kubernetes, pytest.mark.kafka, pytest.mark.timeout(900)]

Step = pages.Command | pages.File
PARTITIONS = 4
RECORDS_A_SECOND = 100
API_SERVER = f"{network.CONTROL}:6443"
PROXY = "app.kubernetes.io/component=proxy"


def test_the_namespace_refuses_what_is_not_restricted(namespace):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "anything"},
        "spec": {"containers": [{"name": "anything", "image": "anything"}]},
    }
    with pytest.raises(ClusterError, match="violates PodSecurity"):
        kubectl("create", "--namespace", namespace, "--dry-run=server", "--filename=-", feed=json.dumps(pod))


def test_the_chart_installs_with_three_replicas(release, namespace):
    deployment = json.loads(kubectl("get", "deployment", release, "--namespace", namespace, "--output=json"))
    assert deployment["status"]["readyReplicas"] == 3


def test_helm_test_passes(release):
    assert "Succeeded" in helm("test", release, "--timeout=120s")


def test_a_rollout_restart_costs_no_rejoin_and_no_record(release, namespace, project_image, kafka):
    groups = [
        Group(namespace, name, 2, assignor, name, f"{release}-kafka:9092", project_image)
        for name, assignor in (("eager", "range"), ("cooperative", "cooperative-sticky"))
    ]
    topics = [group.topic for group in groups]
    make_topics(kafka, topics)
    for group in groups:
        group.start()
    for group in groups:
        wait_until(lambda group=group: everything_is_owned(group.seen()), f"{group.name} has its partitions")
    with producing(kafka, topics):
        for group in groups:
            wait_until(lambda group=group: len(group.seen().read) > 50, f"{group.name} reads")
        before = {group.name: group.seen() for group in groups}
        pods = pods_of(namespace)
        kubectl("rollout", "restart", f"deployment/{release}", "--namespace", namespace)
        kubectl("rollout", "status", f"deployment/{release}", "--namespace", namespace, "--timeout=180s")
        wait_until(lambda: not pods & pods_of(namespace), "no pod of before is left")
    for group in groups:
        wrote = written(kafka, group.topic)
        wait_until(lambda group=group, wrote=wrote: wrote <= set(group.seen().read), f"{group.name} read all")
        after = group.seen()
        assert after.rebalances == before[group.name].rebalances, group.name
        assert [at for at, times in after.read.items() if times > 1] == [], group.name


def test_a_network_policy_lets_nobody_through_who_is_not_named(release, namespace, project_image, kafka):
    for name in ("friend", "stranger"):
        idle = pod(name, project_image, ["sleep", "infinity"])
        kubectl("apply", "--namespace", namespace, "--filename=-", feed=json.dumps(idle))
    kubectl("wait", "--for=condition=Ready", "pod/friend", "pod/stranger", "--namespace", namespace)
    service, broker = f"{release}-kafka:9092", kafka.for_pods
    (proxy, *_) = pods_of(namespace)
    assert connects(namespace, "pod/friend", service)
    assert connects(namespace, "pod/stranger", service)
    assert connects(namespace, proxy, API_SERVER)
    allowed = {
        "enabled": True,
        "clients": [{"podSelector": {"matchLabels": {"epochgate-test": "friend"}}}],
        "brokers": [{"ipBlock": {"cidr": f"{broker.rpartition(':')[0]}/32"}}],
    }
    helm(
        "upgrade",
        release,
        str(CHART),
        "--reuse-values",
        "--wait",
        "--timeout=90s",
        "--values=-",
        feed=json.dumps({"networkPolicy": allowed}),
    )
    try:
        wait_until(lambda: not connects(namespace, "pod/stranger", service), "strangers are kept out")
        assert connects(namespace, "pod/friend", service)
        (proxy, *_) = pods_of(namespace)
        assert connects(namespace, proxy, broker)
        assert not connects(namespace, proxy, API_SERVER)
    finally:
        kubectl("delete", "networkpolicy", "--all", "--namespace", namespace)


def test_every_command_of_the_walkthrough(tmp_path, kafka_in_pods):
    reader = Reader(tmp_path, kafka_in_pods)
    steps = pages.steps(PAGE)
    assert sum(isinstance(step, pages.Command) and step.until is not None for step in steps) == 4
    for step in steps:
        reader.do(step)
    assert not (tmp_path / "try").exists()
    (trial,) = (said for line, said in reader.said.items() if line.startswith("helm test"))
    assert "Phase: Succeeded" in trial, trial


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_the_pipeline_in_the_cluster_equals_one_outside(tmp_path, kafka_in_pods, pipeline_image):
    reader = Reader(tmp_path, kafka_in_pods)
    walkthrough, cleaning_up = before_and_from(
        pages.steps(PAGE), "kubectl set env deployment/payments KAFKA=my-"
    )
    for step in walkthrough:
        reader.do(step)
    outside = Outside(tmp_path)
    stop_producing()  # whoever reads from now on finds the same
    outside.wait_until_nobody_commits()
    pipeline, cleaning_up_after_it = before_and_from(pages.steps(SPARK_PAGE), "kubectl delete job")
    for step in pipeline:
        reader.do(step)
    outside.run()
    for command, tables in TABLES.items():
        for table in tables:
            expected = rows(outside.results / command / table)
            assert rows(RESULTS / command / table) == expected, f"a Job's {command}: {table}"
            assert rows(RESULTS / "spark" / command / table) == expected, f"spark-submit's {command}: {table}"
    for step in (*cleaning_up_after_it, *cleaning_up):
        reader.do(step)


def before_and_from(steps: Sequence[Step], line: str) -> tuple[Sequence[Step], Sequence[Step]]:
    """The steps before a command that begins like this, and those from it on."""
    (at,) = (
        number
        for number, step in enumerate(steps)
        if isinstance(step, pages.Command) and step.line.startswith(line)
    )
    return steps[:at], steps[at:]


def stop_producing() -> None:
    there = f"--namespace={install.NAMESPACE}"
    kubectl("scale", "deployment", "shop", "--replicas=0", there)
    kubectl("wait", "pod", "--selector=app=shop", "--for=delete", "--timeout=90s", there)


def connects(namespace: str, source: str, target: str) -> bool:
    """Whether a connection from a pod comes about."""
    host, _, port = target.rpartition(":")
    script = f"import socket; socket.create_connection(({host!r}, {port}), 3)"
    return succeeds("exec", "--namespace", namespace, source, "--", "python", "-c", script)


def pods_of(namespace: str) -> set[str]:
    listing = ["get", "pods", "--namespace", namespace, "--selector", PROXY, "--output=name"]
    return set(kubectl(*listing).split())


def everything_is_owned(seen: Seen) -> bool:
    return seen.owners == dict.fromkeys(range(PARTITIONS), 1)


def make_topics(kafka: Kafka, names: list[str]) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        made.result(30)


@contextmanager
def producing(kafka: Kafka, topics: list[str]) -> Iterator[None]:
    """Write records to each topic, around the clock and round the partitions, straight at the broker."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0})
    ended = Event()

    def write() -> None:
        number = 0
        while not ended.wait(1 / RECORDS_A_SECOND):
            for topic in topics:
                producer.produce(topic, b"record", partition=number % PARTITIONS)
            number += 1

    thread = Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        assert producer.flush(30) == 0


def written(kafka: Kafka, topic: str) -> set[tuple[int, int]]:
    """Partition and offset of every record."""
    reader = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "watermarks"})
    try:
        return {
            (number, offset)
            for number in range(PARTITIONS)
            for offset in range(*reader.get_watermark_offsets(TopicPartition(topic, number), 30))
        }
    finally:
        reader.close()


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 90) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s in vain until {what}"
        time.sleep(0.5)
