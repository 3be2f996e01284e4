"""A group goes from observe to translate and back while it lives and works, and nobody but the proxy knows."""

from pathlib import Path

import pytest
from support.clients import AIOKAFKA, CONFLUENT, COOPERATIVE, JAVA, KAFKA_PYTHON
from support.entry import planned, running_proxy
from support.load import Load
from support.other_clients import FRANZ_GO, KAFKA_GO, KAFKAJS, SARAMA
from support.ownership import Partition, account, overlaps
from support.short_form import long
from support.waiting import eventually

PARTITIONS = 6

MODE = """\
default: observe
rules:
  - {{pattern: ".*", mode: {mode}, switch_pause_ms: 500}}
"""


@pytest.mark.kafka
@pytest.mark.scenario("moved to the new protocol and back while it works")
@pytest.mark.parametrize(
    ("client", "assignor"),
    [
        (CONFLUENT, "range"),
        (CONFLUENT, COOPERATIVE),  # its assignor keeps user data: moved all at once
        (JAVA, COOPERATIVE),
        (KAFKA_GO, "rack-affinity"),
        long(AIOKAFKA, "roundrobin"),
        long(KAFKA_PYTHON, "sticky"),
        long(KAFKAJS, "RoundRobinAssigner"),
        long(FRANZ_GO, COOPERATIVE),
        long(SARAMA, "sticky"),  # keeps user data too
    ],
    ids=str,
)
def test_a_live_group_is_moved_and_moved_back(client, assignor, kafka, consumers, folder: Path, group):
    topic = kafka.new_topic(partitions=PARTITIONS)
    everything = {Partition(topic, number) for number in range(PARTITIONS)}

    def shared():
        owned = [one.owned() for one in members]
        return [len(some) for some in owned] == [2, 2, 2] and set().union(*owned) == everything

    def produced():
        return {(Partition(topic, record.partition), record.offset): record.value for record in load.records}

    def read_up_to_now():
        until_now = produced().keys()
        consumers.wait_until(
            lambda: until_now <= set().union(*(one.consumed() for one in consumers.all)),
            "everything is read that was produced until now",
        )

    with running_proxy(kafka.bootstrap, folder / "proxy") as proxy, Load(kafka, topic) as load:
        policy = proxy.folder / "policy.yaml"
        policy.write_text(MODE.format(mode="observe"))
        members = [consumers.start(client, proxy.bootstrap, group, topic, assignor) for _ in range(3)]
        consumers.wait_until(shared, "the classic group shares the partitions")
        read_up_to_now()
        assert len(kafka.describe_classic(group).members) == 3
        translating = folder / "translating.yaml"
        translating.write_text(MODE.format(mode="translate"))
        assert f"{group}: observe -> translate, 3 members, by rule 1" in planned(translating, proxy)

        for mode in ("translate", "observe", "translate"):
            marks = [one.mark() for one in members]
            policy.write_text(MODE.format(mode=mode))
            consumers.wait_until(
                lambda since=marks: all(
                    one.seen("assigned", since=mark) for one, mark in zip(members, since, strict=True)
                ),
                f"everybody is moved to {mode}",
                timeout_s=60,
            )
            read_up_to_now()
            if mode == "translate":
                eventually(
                    lambda: [one.member_type for one in getattr(kafka.describe(group), "members", ())],
                    lambda types: types == ["consumer"] * 3,
                    what="three members of the new protocol",
                )
            else:
                eventually(
                    lambda: len(kafka.describe_classic(group).members),
                    lambda count: count == 3,
                    what="three classic members",
                )
            consumers.wait_until(shared, f"the partitions are shared in {mode}")
            read_up_to_now()
        assert "1 group unchanged" in planned(translating, proxy)
        load.stop()
        read_up_to_now()

    assert overlaps(consumers.logs) == []
    assert account(produced(), consumers.logs).lost == frozenset()


@pytest.mark.kafka
@pytest.mark.scenario("moved all at once, by two proxies that know nothing of each other")
@pytest.mark.parametrize(
    ("client", "assignor"), [(CONFLUENT, COOPERATIVE), long(KAFKA_GO, "rack-affinity")], ids=str
)
def test_a_group_that_is_moved_all_at_once_is_moved_by_two_proxies(
    client, assignor, kafka, consumers, folder: Path, group
):
    """Each tells its own clients; those that have left wait for the others outside the classic group."""
    topic = kafka.new_topic(partitions=PARTITIONS)
    everything = {Partition(topic, number) for number in range(PARTITIONS)}

    def shared():
        owned = [one.owned() for one in members]
        return all(owned) and set().union(*owned) == everything and sum(map(len, owned)) == PARTITIONS

    with (
        running_proxy(kafka.bootstrap, folder / "one", sole_process=False) as one,
        running_proxy(kafka.bootstrap, folder / "two", sole_process=False) as two,
    ):
        for proxy in (one, two):
            (proxy.folder / "policy.yaml").write_text(MODE.format(mode="observe"))
        members = [
            consumers.start(client, proxy.bootstrap, group, topic, assignor) for proxy in (one, one, two)
        ]
        consumers.wait_until(shared, "the classic group shares the partitions")
        for proxy in (one, two):
            (proxy.folder / "policy.yaml").write_text(MODE.format(mode="translate"))
        eventually(
            lambda: [one.member_type for one in getattr(kafka.describe(group), "members", ())],
            lambda types: types == ["consumer"] * 3,
            what="three members of the new protocol",
            timeout_s=120,
        )
        consumers.wait_until(shared, "the partitions are shared")
    assert overlaps(consumers.logs) == []
