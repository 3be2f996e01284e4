"""Clients with a custom assignor: classic until the policy allows it, then moved while they work."""

from pathlib import Path

import pytest
from support.clients import KAFKA_PYTHON
from support.entry import planned, running_proxy
from support.load import Load
from support.ownership import Partition, account, overlaps
from support.waiting import eventually

PARTITIONS = 4

POLICY = """\
assignors_allowed: [{allowed}]
rules:
  - {{pattern: ".*", mode: translate{more}}}
"""
REFUSED = {
    "look-alike": "assignor 'look-alike' is unknown",
    "with-user-data": "user data in the subscriptions of assignor 'with-user-data'",
}


@pytest.mark.kafka
@pytest.mark.parametrize("assignor", REFUSED)
def test_a_live_group_is_translated_when_the_policy_allows_its_assignor(
    assignor, kafka, consumers, folder: Path, group
):
    topic = kafka.new_topic(partitions=PARTITIONS)
    everything = {Partition(topic, number) for number in range(PARTITIONS)}

    def shared():
        owned = [one.owned() for one in members]
        return [len(some) for some in owned] == [2, 2] and set().union(*owned) == everything

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
        policy.write_text(POLICY.format(allowed="", more=""))
        members = [consumers.start(KAFKA_PYTHON, proxy.bootstrap, group, topic, assignor) for _ in range(2)]
        consumers.wait_until(shared, "the classic group shares the partitions")
        read_up_to_now()
        assert len(kafka.describe_classic(group).members) == 2

        allowing = folder / "allowing.yaml"
        allowing.write_text(POLICY.format(allowed=assignor, more=", assignor: uniform"))
        told = eventually(
            lambda: planned(allowing, proxy),
            lambda told: f"{group}: 2 members, by rule 1" in told,
            what="the proxy has read the first policy",
        )
        assert "can be translated now" in told
        assert REFUSED[assignor] in told
        policy.write_text(allowing.read_text())
        eventually(
            lambda: [one.member_type for one in getattr(kafka.describe(group), "members", ())],
            lambda types: types == ["consumer"] * 2,
            what="two members of the new protocol",
            timeout_s=90,
        )
        consumers.wait_until(shared, "the partitions are shared by the broker's assignor")
        read_up_to_now()
        load.stop()
        read_up_to_now()

    assert overlaps(consumers.logs) == []
    assert account(produced(), consumers.logs).lost == frozenset()
