"""What the shadow of an observed group tells beforehand is what its members really get when the policy moves it."""

import json
import urllib.parse
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from support.clients import CONFLUENT, JAVA, KAFKA_PYTHON
from support.embedded import Embedded
from support.entry import running_proxy
from support.ownership import overlaps
from support.short_form import long
from support.waiting import eventually

MEMBERS = 4
POLICY = """\
default: observe
rules:
  - {{pattern: ".*", mode: {mode}}}
"""


def shadow_of(proxy, group):
    """What /api/groups/<id> tells of the group's move; None if nothing."""
    url = f"{proxy.admin}/api/groups/{urllib.parse.quote(group, safe='')}"
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310  the proxy's own
        return json.load(answer)["shadow"]


def within(span, value):
    return span["low"] <= value <= span["high"]


@pytest.mark.kafka
@pytest.mark.scenario("what the shadow told of an observed group is what its members get when it is moved")
@pytest.mark.parametrize(
    ("client", "assignor", "partitions"),
    [
        (CONFLUENT, "range", 3),  # fewer than members: one stays empty
        long(CONFLUENT, "roundrobin", 9),
        (JAVA, "range", 6),
        long(KAFKA_PYTHON, "sticky", 3),
    ],
    ids=str,
)
def test_what_was_told_beforehand_comes_true(
    client, assignor, partitions, kafka, consumers, folder: Path, group
):
    tell_and_move(kafka, consumers, folder, group, client, assignor, partitions)


def test_what_was_told_beforehand_comes_true_on_the_embedded_broker(consumers, folder: Path, group):
    with Embedded(nodes=1) as broker:
        tell_and_move(broker, consumers, folder, group, CONFLUENT, "range", 6)


def tell_and_move(broker, consumers, folder, group, client, assignor, partitions):
    topic = broker.new_topic(partitions=partitions)

    def shared():
        owned = [one.owned() for one in members]
        return len(set().union(*owned)) == partitions == sum(map(len, owned))

    with running_proxy(broker.bootstrap, folder / "proxy") as proxy:
        policy = proxy.folder / "policy.yaml"
        policy.write_text(POLICY.format(mode="observe"))
        members = [consumers.start(client, proxy.bootstrap, group, topic, assignor) for _ in range(MEMBERS)]
        consumers.wait_until(shared, "the classic group shares the partitions")
        told = eventually(
            lambda: shadow_of(proxy, group),
            lambda seen: seen is not None and seen["why_not"] is None and seen["members"] == MEMBERS,
            what="the shadow of all four members is told",
        )
        assert told["partitions"] == partitions
        assert told["empty_now"] == sum(not one.owned() for one in members)
        before = {one.name: one.owned() for one in members}

        policy.write_text(POLICY.format(mode="translate"))
        eventually(
            lambda: [one.member_type for one in getattr(broker.describe(group), "members", ())],
            lambda types: types == ["consumer"] * MEMBERS,
            what="all are members of the new protocol",
        )
        eventually(lambda: broker.describe(group).state, lambda state: state == "Stable", what="it is stable")
        consumers.wait_until(shared, "the moved group shares the partitions")
        assert shadow_of(proxy, group) is None
        # Before the proxy ends, and with it what they own.
        counts = Counter(len(one.owned()) for one in members)
        moved = sum(len(before[one.name] - one.owned()) for one in members)

    print(f"told {told}; got {counts}, moved {moved}")
    assert within(told["empty"], counts[0])
    listed = {one["partitions"]: one["members"] for one in told["counts"]}
    assert all(within(listed[number], count) for number, count in counts.items())
    assert within(told["moved"], moved)
    assert overlaps(consumers.logs) == []
