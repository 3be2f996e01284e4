"""A group goes from observe to translate and back while it lives and works, and nobody but the proxy knows."""

from pathlib import Path

import pytest
from support.clients import AIOKAFKA, CONFLUENT, COOPERATIVE, JAVA, KAFKA_PYTHON
from support.entry import running_proxy
from support.ownership import Partition, account, overlaps
from support.waiting import eventually

PARTITIONS = 6
RECORDS = 60

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
        (AIOKAFKA, "roundrobin"),
        (CONFLUENT, "range"),
        (CONFLUENT, COOPERATIVE),  # its assignor keeps user data: moved all at once
        (JAVA, COOPERATIVE),
        (KAFKA_PYTHON, "sticky"),
    ],
    ids=str,
)
def test_a_live_group_is_moved_and_moved_back(client, assignor, kafka, consumers, folder: Path, group):
    topic = kafka.new_topic(partitions=PARTITIONS)
    everything = {Partition(topic, number) for number in range(PARTITIONS)}
    records = []

    def shared():
        owned = [one.owned() for one in members]
        return [len(some) for some in owned] == [2, 2, 2] and set().union(*owned) == everything

    def produced():
        return {(Partition(topic, record.partition), record.offset): record.value for record in records}

    def read_more():
        records.extend(kafka.produce(topic, RECORDS))
        consumers.wait_until(
            lambda: produced().keys() <= set().union(*(one.consumed() for one in consumers.all)),
            "every record is read",
        )

    with running_proxy(kafka, folder / "proxy") as proxy:
        policy = proxy.folder / "policy.yaml"
        policy.write_text(MODE.format(mode="observe"))
        members = [consumers.start(client, proxy.bootstrap, group, topic, assignor) for _ in range(3)]
        consumers.wait_until(shared, "the classic group shares the partitions")
        read_more()
        assert len(kafka.describe_classic(group).members) == 3

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
            read_more()
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
            read_more()

    assert overlaps(consumers.logs) == []
    assert account(produced(), consumers.logs).lost == frozenset()
