"""A live group moves by steps: one of four, while members come and go; then all. And held when the one has left."""

import json
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from support.clients import AIOKAFKA, CONFLUENT
from support.entry import running_proxy
from support.load import Load
from support.ownership import Partition, account, overlaps
from support.short_form import long
from support.waiting import eventually

PARTITIONS = 8
POLICY = """\
default: observe
rules:
  - {{pattern: ".*", mode: {mode}{more}}}
"""
STEPS = ", steps: [{}], hold_s: 0"


def move_of(proxy, group):
    """What /api/groups says of the group's move, as text; None if nothing."""
    with urllib.request.urlopen(f"{proxy.admin}/api/groups", timeout=30) as answer:  # noqa: S310  the proxy's own
        groups = json.load(answer)["groups"]
    return next((one["move"] and one["move"]["text"] for one in groups if one["id"] == group), None)


def types(kafka, group):
    """How many members the broker has of each kind; a classic group has classic ones only."""
    described = kafka.describe(group)
    if described is not None:
        return Counter(one.member_type for one in described.members)
    return Counter(classic=len(kafka.describe_classic(group).members))


@pytest.mark.kafka
@pytest.mark.scenario("one of four is moved and held while members come and go, then all")
@pytest.mark.parametrize("client", [CONFLUENT, long(AIOKAFKA)], ids=str)
def test_a_step_is_held_under_joins_and_leaves_and_then_all_are_moved(
    client, kafka, consumers, folder: Path, group
):
    topic = kafka.new_topic(partitions=PARTITIONS)
    everything = {Partition(topic, number) for number in range(PARTITIONS)}

    def shared():
        owned = [one.owned() for one in members]
        return all(owned) and set().union(*owned) == everything and sum(map(len, owned)) == PARTITIONS

    def produced():
        return {(Partition(topic, record.partition), record.offset): record.value for record in load.records}

    def settles(what, **expected):
        seen = []

        def look():
            seen.append(types(kafka, group))
            return seen[-1]

        eventually(look, lambda found: found == Counter(expected), what=what, timeout_s=90)
        consumers.wait_until(shared, f"the partitions are shared: {what}")
        return max(one["consumer"] for one in seen)

    with running_proxy(kafka.bootstrap, folder / "proxy") as proxy, Load(kafka, topic) as load:
        policy = proxy.folder / "policy.yaml"
        policy.write_text(POLICY.format(mode="observe", more=""))
        members = [consumers.start(client, proxy.bootstrap, group, topic, "range") for _ in range(4)]
        settles("four classic members", classic=4)

        policy.write_text(POLICY.format(mode="translate", more=STEPS.format("1")))
        assert settles("one of four is translated", consumer=1, classic=3) == 1
        eventually(
            lambda: move_of(proxy, group),
            lambda text: text == "step 1 of 1 (1), settled",
            what="the step has settled",
        )

        members += [consumers.start(client, proxy.bootstrap, group, topic, "range") for _ in range(2)]
        assert settles("two newcomers stay classic", consumer=1, classic=5) == 1
        translated = {one.client_id for one in kafka.describe(group).members if one.member_type == "consumer"}
        leaving = [one for one in members if one.name not in translated][:2]
        for one in leaving:
            members.remove(one)
            one.close()
        assert settles("two classic members have left", consumer=1, classic=3) == 1

        policy.write_text(POLICY.format(mode="translate", more=STEPS.format("1, 50%, 100%")))
        settles("all are translated", consumer=4)
        assert move_of(proxy, group) == "step 3 of 3 (100%)"
        load.stop()
        consumers.wait_until(
            lambda: produced().keys() <= set().union(*(one.consumed() for one in consumers.all)),
            "everything is read that was produced",
        )

    assert overlaps(consumers.logs) == []
    assert account(produced(), consumers.logs).lost == frozenset()


@pytest.mark.kafka
@pytest.mark.scenario("its last translated member leaves: another takes its place")
def test_the_place_of_the_last_translated_member_is_taken_by_another(kafka, consumers, folder: Path, group):
    """The helper stays as long as the step is held, so the broker does not make the group a classic one."""
    topic = kafka.new_topic(partitions=PARTITIONS)
    with running_proxy(kafka.bootstrap, folder / "proxy") as proxy:
        policy = proxy.folder / "policy.yaml"
        policy.write_text(POLICY.format(mode="translate", more=STEPS.format("1")))
        members = [consumers.start(CONFLUENT, proxy.bootstrap, group, topic, "range") for _ in range(3)]

        def become(what, **expected):
            eventually(
                lambda: types(kafka, group), lambda found: found == Counter(expected), what=what, timeout_s=90
            )

        become("one of three is translated", consumer=1, classic=2)
        translated = {one.client_id for one in kafka.describe(group).members if one.member_type == "consumer"}
        (last,) = (one for one in members if one.name in translated)
        last.close()
        members.append(consumers.start(CONFLUENT, proxy.bootstrap, group, topic, "range"))
        become("another is translated in its place", consumer=1, classic=2)
        eventually(
            lambda: move_of(proxy, group),
            lambda text: text == "step 1 of 1 (1), settled",
            what="the step has settled",
        )

        policy.write_text(POLICY.format(mode="translate", more=STEPS.format("2")))
        become("other steps move it again", consumer=2, classic=1)
    assert overlaps(consumers.logs) == []
