"""What brokers leave to nobody has an owner again without anybody's help; beside it a run that is not mended stays so."""

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions
from support.broker import Kafka
from support.clients import CONFLUENT
from support.entry import Proxy, running_proxy
from support.ownership import Partition, overlaps
from support.waiting import eventually

from tools.kafka.settings import GROUP_DEFAULTS

pytestmark = pytest.mark.kafka

POLICY = """\
default: observe
rules:
  - {{pattern: "left-.*", mode: {mode}, switch_pause_ms: 200, mend: false}}
  - {{pattern: ".*", mode: {mode}, switch_pause_ms: 200{more}}}
"""
LOOKS = {"ask_brokers_every_s": 1.0}
MENDED_S = 60.0


def targets(kafka: Kafka, group: str) -> set[int]:
    """The partitions that some member of a consumer group is to have."""
    return {number for one in kafka.describe(group).members for at in one.target.values() for number in at}


def unowned(proxy: Proxy, group: str) -> dict | None:
    """What /api/groups says that nobody has."""
    return proxy.group(group)["unowned"]


def events(proxy: Proxy, group: str, *kinds: str) -> list[str]:
    """The reasons of these events of a group, in order."""
    return [one["reason"] for one in proxy.group(group)["events"] if one["kind"] in kinds]


@pytest.fixture
def broker(request, kafka, own_kafka) -> Kafka:
    """The shared broker, or one with Kafka's own settings for groups."""
    if request.param == "short":
        return kafka
    cluster = own_kafka(overrides=GROUP_DEFAULTS)
    return Kafka(cluster.bootstrap, source="own", version=cluster.version)


@pytest.mark.scenario("static members are moved before they notice that their topic has grown: mended")
@pytest.mark.parametrize("broker", ["short", pytest.param("stock", marks=pytest.mark.long)], indirect=True)
def test_what_a_topic_has_grown_by_before_static_members_were_moved(broker, consumers, folder: Path, group):
    kafka, left = broker, f"left-{group}"
    topics = {one: kafka.new_topic(partitions=4) for one in (group, left)}
    stock = kafka.source == "own"
    spec = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 3_000} if stock else {}
    policy_of = POLICY.format
    with running_proxy(
        kafka.bootstrap, folder / "proxy", metrics=LOOKS, policy=policy_of(mode="observe", more="")
    ) as proxy:
        members = {
            one: [
                consumers.start(
                    CONFLUENT, proxy.bootstrap, one, topic, "roundrobin", instance_id=instance, **spec
                )
                for instance in ("one",)
            ]
            for one, topic in topics.items()
        }

        def shared(one: str, partitions: int) -> bool:
            everything = {Partition(topics[one], number) for number in range(partitions)}
            owned = [each.owned() for each in members[one]]
            return set().union(*owned) == everything and sum(map(len, owned)) == partitions

        for one in topics:
            consumers.wait_until(lambda one=one: shared(one, 4), f"{one} shares its partitions")
        for topic in topics.values():
            kafka.admin.create_partitions([NewPartitions(topic, 6)])[topic].result(timeout=60)
        (proxy.folder / "policy.yaml").write_text(policy_of(mode="translate", more=""))
        for one in topics:
            eventually(
                lambda one=one: kafka.describe(one),
                lambda view: (
                    view is not None
                    and view.state == "Stable"
                    and [each.member_type for each in view.members] == ["consumer"]
                ),
                what=f"{one} is moved",
                timeout_s=90,
            )
            assert targets(kafka, one) == {0, 1, 2, 3}
        moved = time.monotonic()
        consumers.wait_until(
            lambda: shared(group, 6), "the new partitions have owners", timeout_s=MENDED_S + moved
        )
        eventually(lambda: unowned(proxy, group), lambda seen: seen is None, what="it is not shown any more")
        assert events(proxy, group, "mending") == [
            "a member without topics joined and leaves, try 1",
            "all partitions have an owner again",
        ]

        shown = eventually(
            lambda: unowned(proxy, left),
            lambda seen: seen is not None and seen["why_not"] != "",
            what="the other one is shown as left to itself",
        )
        assert (shown["partitions"], shown["tries"]) == (2, 0)
        assert events(proxy, left, "left_unowned", "mending") == ["the policy says `mend: false`"]
        assert targets(kafka, left) == {0, 1, 2, 3}
        assert shared(left, 4)
        assert "epochgate_unowned_partitions 2.0" in proxy.metrics()
    assert overlaps(consumers.logs) == []
