"""The metrics of the embedded coordinator are those of a real Kafka's JMX after the same requests."""

import math
import os
import random
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from coordinator.metrics.families import GROUP_TYPES, METERS
from coordinator.metrics.sampled import Meter, Samples
from protocol_codecs import all_messages as m
from tests.coordinator.core_backend import CONFIG, CoreBackend
from tests.coordinator.kafka_backend import KafkaBackend
from tests.coordinator.scenarios.steps import stable_pair
from tests.coordinator.script import Script
from tests.coordinator.shown_metrics import Shown, shown_of
from tests.skips import Need, without
from tools.java_client import compiled
from tools.kafka import jars
from tools.kafka.cluster import RUN, Cluster

pytestmark = pytest.mark.kafka

BEAN = "kafka.server:type=group-coordinator-metrics,*"
LASTS_MS = 500_000
"""Longer than the test: Kafka counts its groups once a minute, and their members are to be there still."""
GAUGES_S = 75.0
VERSION = os.environ.get("KAFKA_VERSION", jars.DEFAULT_VERSION)


# Windows


def java(source: Path, log: Path, *arguments: str, stdin: str = "") -> str:
    """What a Java program prints."""
    compiled.ensure_compiled(VERSION, source)
    command = [*compiled.command(VERSION, log, source), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def events(seed: int) -> Iterator[tuple[int, int | None]]:
    """Times with a value to record, or with None to measure."""
    dice = random.Random(seed)  # noqa: S311 - the same events each time
    now_ms = 1_000_000
    for _ in range(400):
        now_ms += dice.choice([0, 1, 900, 7_000, 29_999, 30_000, 31_000, 61_000])
        yield now_ms, dice.choice([None, None, dice.randrange(0, 50)])


@pytest.mark.parametrize("seed", range(3))
def test_windows_are_kafkas(seed: int, tmp_path: Path):
    lines = "".join(f"{at}\n" if value is None else f"{at} {value}\n" for at, value in events(seed))
    printed = java(compiled.SAMPLED_STATS, tmp_path / "log", stdin=lines)
    theirs = [tuple(map(float, line.split())) for line in printed.splitlines()]

    meter, samples, ours = Meter(), Samples(), []
    for at, value in events(seed):
        if value is None:
            ours.append((meter.per_second(at), samples.maximum(at), samples.mean(at)))
        else:
            meter.record(value, at)
            samples.record(value, at)

    assert len(theirs) > 100
    assert sum(math.isnan(mean) for _, _, mean in theirs) > 5
    for number, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        assert our == pytest.approx(their, nan_ok=True), number


# A broker


def consumer_stable(s: Script) -> None:
    s.topic("foo", 4)
    a = s.member("A")
    a.join()
    a.commit({"foo": {0: 1, 1: 1}})


def consumer_assigning(s: Script) -> None:
    s.topic("foo", 4)
    s.member("A").join()
    s.member("B").join()  # within the assignment interval


def consumer_reconciling(s: Script) -> None:
    s.topic("foo", 4)
    a, b = (s.member(name, rebalance_timeout_ms=LASTS_MS) for name in "AB")
    a.join()
    s.pass_time(1_300)
    b.join()
    s.pass_time(1_300)
    b.beat()
    a.beat()  # is told to revoke, and does not


def consumer_empty(s: Script) -> None:
    s.topic("foo", 4)
    a, b = s.member("A"), s.member("B")
    a.join()
    b.join()
    a.leave()
    s.add_partitions("foo", 5)
    b.beat()
    b.leave()


def classic_stable(s: Script) -> None:
    s.topic("foo", 4)
    a, _ = stable_pair(s, session_timeout_ms=LASTS_MS, rebalance_timeout_ms=LASTS_MS)
    a.commit({"foo": {2: 3}})


def classic_preparing(s: Script) -> None:
    s.topic("foo", 4)
    stable_pair(s, session_timeout_ms=LASTS_MS, rebalance_timeout_ms=LASTS_MS)
    third = s.classic("C", session_timeout_ms=LASTS_MS, rebalance_timeout_ms=LASTS_MS)
    third.ask_member_id()
    third.send_join().arrive()  # waits for the others


def classic_completing(s: Script) -> None:
    s.topic("foo", 4)
    a = s.classic("A", session_timeout_ms=LASTS_MS, rebalance_timeout_ms=LASTS_MS)
    a.ask_member_id()
    a.joined(a.send_join())  # and sends no SyncGroup


def offsets_alone(s: Script) -> None:
    s.topic("foo", 4)
    s.commit("somebody", {"foo": {0: 1, 1: 1, 2: 1}})
    s.commit("somebody", {"foo": {0: 2}})
    s.delete_offsets({"foo": [1, 3]})


def becomes_a_consumer_group(s: Script) -> None:
    """The conversion is no rebalance, that the new member subscribes is one."""
    s.topic("foo", 4)
    stable_pair(s, session_timeout_ms=LASTS_MS, rebalance_timeout_ms=LASTS_MS)
    s.member("N").join()


def share_stable(s: Script) -> None:
    s.topic("foo", 4)
    s.sharing("A").join()  # a heartbeat may come before its partitions have state, so there is none


def share_empty(s: Script) -> None:
    s.topic("foo", 4)
    a, b = s.sharing("A"), s.sharing("B")
    a.join()
    b.join()
    a.leave()
    b.leave()


PLAYS: tuple[Callable[[Script], None], ...] = (
    consumer_stable,
    consumer_assigning,
    consumer_reconciling,
    consumer_empty,
    classic_stable,
    classic_preparing,
    classic_completing,
    offsets_alone,
    becomes_a_consumer_group,
    share_stable,
    share_empty,
)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A Kafka that has no other groups."""
    overrides = {
        "group.consumer.max.session.timeout.ms": str(LASTS_MS),
        "group.consumer.session.timeout.ms": str(LASTS_MS),
        "group.share.max.session.timeout.ms": str(LASTS_MS),
        "group.share.session.timeout.ms": str(LASTS_MS),
    }
    started = Cluster(RUN / f"metrics-{os.getpid()}", version=VERSION, overrides=overrides)
    try:
        started.save(owner_pid=os.getpid())
        started.start()
    except jars.KafkaUnavailableError as reason:
        started.remove()
        without(Need.KAFKA, f"no Kafka: {reason}")
    try:
        yield started
    finally:
        started.stop(grace_s=3)
        started.remove()


def jmx(cluster: Cluster, log: Path) -> Shown:
    """The attributes of Kafka's MBeans by the names that ours have."""
    values: Shown = {}
    for line in java(compiled.JMX_READER, log, str(cluster.brokers[0].pid()), BEAN).splitlines():
        attribute, properties, value = line.split("\t")
        name = attribute.replace("-", "_")
        label = properties.strip("{}").partition("=")[2]
        values[(name, label) if label else name] = float(value)
    return values


def with_probes(theirs: KafkaBackend) -> CoreBackend:
    """The groups that asked Kafka's coordinator whether it has seen a change, asked for here as well."""
    ours = CoreBackend()
    listed = theirs._admin.call(m.ListGroupsRequest(), 5).groups
    for group_id in (group.group_id for group in listed if "-probe-" in group.group_id):
        joining = m.ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id="probe",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=("foo",),
            topic_partitions=(),
        )
        for request in (
            joining,
            m.ConsumerGroupHeartbeatRequest(group_id=group_id, member_id="probe", member_epoch=-1),
        ):
            assert ours.send(request, 1, "probe").result().error_code == 0
    return ours


def counted(values: Shown) -> Shown:
    """Those that do not depend on time, and count what both have."""
    counts = {f"{name}_count" for name, _ in METERS.values()} | {"offset_count"}
    groups = {("group_count", name) for name in GROUP_TYPES} | {
        (f"{name}_group_count", state.value) for name, (_, states) in GROUP_TYPES.items() for state in states
    }
    return {key: value for key, value in values.items() if key in counts | groups}


def test_kafka_counts_the_same(cluster: Cluster, tmp_path: Path):
    config = replace(
        CONFIG,
        consumer_session_timeout_ms=LASTS_MS,
        consumer_max_session_timeout_ms=LASTS_MS,
        share_session_timeout_ms=LASTS_MS,
        share_max_session_timeout_ms=LASTS_MS,
    )
    before = jmx(cluster, tmp_path / "log")
    backends, shards = [], []
    for play in PLAYS:
        prefix = f"{play.__name__}-{uuid.uuid4().hex[:6]}"
        theirs = KafkaBackend(cluster.bootstrap, f"{prefix}-group")
        backends.append(theirs)
        play(Script(theirs, prefix))
        ours = CoreBackend(theirs.trace, config=config)
        play(Script(ours, prefix))
        shards.append(ours.coordinator.shard)
    shards.append(with_probes(backends[0]).coordinator.shard)
    expected = counted(shown_of(shards, 0))
    try:
        deadline = time.monotonic() + GAUGES_S
        while (actual := jmx(cluster, tmp_path / "log")) and counted(actual) != expected:
            assert time.monotonic() < deadline, differences(expected, counted(actual))
            time.sleep(2)  # the broker counts its groups once a minute, and nothing tells when
    finally:
        for backend in backends:
            backend.close()

    assert not any(counted(before).values())
    assert all(expected["consumer_group_count", s] for s in ("Stable", "Assigning", "Reconciling", "Empty"))
    assert all(expected["share_group_count", s] for s in ("Stable", "Empty"))
    assert all(
        expected["classic_group_count", s]
        for s in ("Stable", "PreparingRebalance", "CompletingRebalance", "Empty")
    )
    assert set(shown_of(shards, 0)) - set(actual) == set()  # no name or label value that Kafka does not have


def differences(ours: Shown, theirs: Shown) -> str:
    different = {
        key: (ours.get(key), theirs.get(key)) for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)
    }
    return f"ours and Kafka's: {different}"
