"""The metrics of the embedded coordinator say what its state says, in virtual time."""

import math
from collections import Counter
from typing import Any

import pytest
import trio

from coordinator.broker import EmbeddedCluster, serve
from coordinator.broker.clock import Clock
from coordinator.broker.cluster_metrics import ClusterMetrics
from coordinator.log import MemoryLog
from coordinator.metrics.families import GROUP_TYPES, METERS
from coordinator.metrics.sampled import Meter, Samples
from coordinator.shard import Call
from protocol_codecs import all_messages as m
from protocol_codecs.records import OffsetCommitKey
from tests.coordinator.core_backend import CONFIG, CoreBackend
from tests.coordinator.scenarios import SCENARIOS
from tests.coordinator.script import Script
from tests.coordinator.shown_metrics import Shown, shown, shown_of

STATES = {name: [state.value for state in states] for name, (_, states) in GROUP_TYPES.items()}


def played(name: str) -> CoreBackend:
    backend = CoreBackend()
    SCENARIOS[name](Script(backend, name))
    return backend


def metrics_of(backend: CoreBackend) -> Shown:
    return shown_of([backend.coordinator.shard], backend.now_ms)


def listed(backend: CoreBackend) -> Counter[tuple[str, str]]:
    """Groups by type and state, as ListGroups answers, which is compared with Kafka."""
    call = Call(request_id=1 << 30, version=5)
    (reply,) = backend.coordinator.handle(m.ListGroupsRequest(), call, backend.now_ms)
    response: Any = reply.response
    return Counter((group.group_type, group.group_state) for group in response.groups)


def stored_offsets(log: MemoryLog) -> int:
    """How many offsets a log leaves: the last record of each key counts."""
    last = {
        record.key: record.value
        for batch in log.read()
        for record in batch.records
        if isinstance(record.key, OffsetCommitKey)
    }
    return sum(value is not None for value in last.values())


@pytest.mark.parametrize("name", SCENARIOS)
def test_groups_and_offsets_are_those_that_the_coordinator_lists(name: str):
    backend = played(name)

    values = metrics_of(backend)

    groups = listed(backend)
    for group_type, states in STATES.items():
        for state in states:
            assert values[f"{group_type}_group_count", state] == groups[group_type, state], (
                group_type,
                state,
            )
        total = sum(groups[group_type, state] for state in states)
        assert values["group_count", group_type] == total
    assert values["offset_count"] == stored_offsets(backend.log)


def test_the_scenarios_end_in_states_that_differ():
    """Else the comparison above would hold for a metric that is always 0."""
    seen = Counter[tuple[str, str]]()
    offsets = 0
    for name in SCENARIOS:
        backend = played(name)
        seen += listed(backend)
        offsets += stored_offsets(backend.log)

    assert {
        ("classic", "Stable"),
        ("classic", "Empty"),
        ("consumer", "Stable"),
        ("consumer", "Empty"),
    } <= set(seen)
    assert ("consumer", "Reconciling") in seen
    assert {("share", "Stable"), ("share", "Empty")} <= set(seen)
    assert offsets > 5


def test_a_group_is_counted_in_the_state_it_is_in():
    backend = CoreBackend()
    script = Script(backend, "s")
    script.topic("foo", 4)
    a, b = script.member("A"), script.member("B")
    seen = []

    def look() -> None:
        values = metrics_of(backend)
        seen.append([state for state in STATES["consumer"] if values["consumer_group_count", state]])

    a.join()
    look()
    b.join()  # within the assignment interval
    look()
    script.pass_time(1_000)
    b.beat()
    look()
    a.beat()
    a.ack({"foo": a.assigned["foo"]})
    a.beat()
    b.beat()
    look()
    script.pass_time(6_000)  # the session timeout
    look()

    assert seen == [["Stable"], ["Assigning"], ["Reconciling"], ["Stable"], ["Empty"]]


def test_consumer_group_rebalances_are_counted_as_kafka_counts_them():
    """A subscription, a topic or an expression counts; that a member leaves moves the epoch and does not count."""
    backend = CoreBackend()
    script = Script(backend, "s")
    script.topic("foo", 2)
    shard = backend.coordinator.shard
    a, b = script.member("A"), script.member("B")

    def count() -> int:
        return shard.activity.consumer_group_rebalances

    a.join()
    b.join()
    a.beat()
    assert count() == 2
    b.leave()
    assert count() == 2
    script.add_partitions("foo", 3)
    a.beat()
    assert count() == 3
    script.member("C", topics=None, regex="f.*").join()
    script.pass_time(10)
    assert count() == 4  # by its resolution


def test_share_group_rebalances_are_counted():
    """A subscription, a topic and partitions that got their state count; that a member leaves does not."""
    backend = CoreBackend()
    script = Script(backend, "s")
    script.topic("foo", 2)
    a, b = script.sharing("A"), script.sharing("B")

    counts = []
    for step in (a.join, a.beat, b.join, b.leave, lambda: script.add_partitions("foo", 3), a.beat):
        step()
        counts.append(backend.coordinator.shard.activity.share_group_rebalances)

    assert counts == [1, 2, 3, 3, 3, 4]


def test_completed_rebalances_of_classic_groups():
    """One member, two of them, and one again."""
    backend = played("classic_group_lives")

    assert metrics_of(backend)["group_completed_rebalance_count"] == 3


def test_offsets_committed_deleted_and_expired():
    backend = CoreBackend()
    script = Script(backend, "s")
    script.topic("foo", 4)
    script.commit("somebody", {"foo": {0: 1, 1: 1, 2: 1}})
    script.commit("somebody", {"foo": {0: 2, 9: 1}})  # there is no partition 9
    script.delete_offsets({"foo": [0, 3]})  # nothing is stored for partition 3
    before = metrics_of(backend)
    shard = backend.coordinator.shard
    backend.pass_time(CONFIG.offsets_retention_ms + CONFIG.offsets_retention_check_interval_ms)
    after = metrics_of(backend)

    assert before["offset_commit_count"] == 4
    assert before["offset_deletion_count"] == 1
    assert before["offset_expiration_count"] == 0
    assert before["offset_count"] == 2
    assert after["offset_expiration_count"] == 2
    assert after["offset_count"] == 0
    assert after["group_count", "classic"] == 0
    assert not any(getattr(shard.activity, name) for name in METERS)  # what was taken is not taken again


def test_label_values_are_a_fixed_set():
    """Whatever groups there are: names of groups, members, clients and topics are no label."""
    few, many = metrics_of(CoreBackend()), CoreBackend()
    for number in range(40):
        script = Script(many, f"g{number}")
        script.topic("foo", 1)
        script.member("A").join()
        script.commit("somebody", {"foo": {0: number}}, epoch=-1)

    assert set(metrics_of(many)) == set(few)


# Windows


def test_a_rate_covers_at_least_one_window_and_forgets_after_two():
    meter = Meter()
    meter.record(30, 0)

    assert meter.per_second(0) == 1  # over one window of 30 s at least
    assert meter.per_second(15_000) == pytest.approx(30 / 45)
    assert meter.per_second(45_000) == pytest.approx(30 / 45)
    meter.record(15, 45_000)  # a new sample
    assert meter.per_second(45_000) == 1
    assert meter.per_second(60_000) == pytest.approx(15 / 45)  # the first sample is 60 s old; the second 15 s
    assert meter.per_second(200_000) == 0
    assert meter.count == 45


def test_maximum_and_mean_forget_too():
    samples = Samples()
    assert math.isnan(samples.maximum(0))
    assert math.isnan(samples.mean(0))

    samples.record(10, 0)
    samples.record(2, 40_000)

    assert (samples.maximum(40_000), samples.mean(40_000)) == (10, 6)
    assert (samples.maximum(60_000), samples.mean(60_000)) == (2, 2)
    assert math.isnan(samples.mean(100_000))


# The broker around it


async def heartbeat(cluster: EmbeddedCluster, group_id: str) -> Any:
    request = m.ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=("foo",),
        topic_partitions=(),
    )
    return await cluster.shard_of(group_id).call(request, 1, "client", "/127.0.0.1")


async def test_all_nodes_of_a_process_are_one_target(autojump_clock: trio.testing.MockClock):
    async with serve(EmbeddedCluster(nodes=3, shards=6, coordinator=CONFIG)) as cluster:
        cluster.create_topic("foo", 4)
        metrics = ClusterMetrics(cluster, Clock())
        groups = [f"group-{number}" for number in range(9)]
        for group_id in groups:
            assert (await heartbeat(cluster, group_id)).error_code == 0
        cluster.set_loading(groups[0], loading=True)
        cluster.move_coordinator(groups[1], 2)

        values = shown(metrics.collect())

        assert values["group_count", "consumer"] == 9
        assert values["num_partitions", "loading"] == 1
        assert values["num_partitions", "active"] == 5
        assert values["num_partitions", "failed"] == 0
        assert values["consumer_group_rebalance_count"] == 9  # also those of the coordinator that has moved
        assert values["consumer_group_rebalance_rate"] == pytest.approx(9 / 30)
        assert values["partition_load_time_max"] == 0  # virtual time does not pass while a log is read

        await trio.sleep(60)  # the sessions end, the windows pass
        values = shown(metrics.collect())

        assert values["consumer_group_count", "Empty"] == 9
        assert values["consumer_group_rebalance_count"] == 9
        assert values["consumer_group_rebalance_rate"] == 0
        assert math.isnan(values["partition_load_time_max"])
        assert math.isnan(values["partition_load_time_avg"])
        assert values["thread_idle_ratio_avg"] == pytest.approx(1)


async def test_idle_is_what_the_coordinators_do_not_use(autojump_clock: trio.testing.MockClock):
    async with serve(EmbeddedCluster(coordinator=CONFIG)) as cluster:
        now_ms = Clock().elapsed_ms()
        for second in range(60):  # a quarter of each second
            cluster.sensors.work_begins(now_ms + 1000 * second)
            cluster.sensors.work_ended(now_ms + 1000 * second + 250)

        assert cluster.sensors.idle_ratio(now_ms + 60_000) == pytest.approx(0.75, abs=0.02)
