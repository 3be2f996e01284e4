"""A rolling restart as the Deployment does it: twenty consumers, two pods, both replaced; nobody loses anything.

What it cost is in build/chart/drain.json, or drain-fleet.json: how long each partition had no owner, and how many
members rejoined. With a member log it costs nothing.
"""

import json
import statistics
import uuid

import pytest
from support import rollout
from support.clients import CONFLUENT, COOPERATIVE
from support.consumers import Consumers
from support.ownership import Partition, account, gaps, overlaps

from tests.chart.pod import empty
from tests.skips import Need, without
from tools import haproxy
from tools.chart.binaries import ROOT

PARTITIONS = 20
RECORDS = 200
MEMBERS = {"eager": ("range", 10), "cooperative": (COOPERATIVE, 10)}
DRAIN_S = 30
"""What terminationGracePeriodSeconds leaves for it with the chart's defaults, after preStop."""


@pytest.fixture
def folder():
    made = empty(ROOT / "build" / "chart" / "drain")
    made.mkdir(parents=True)
    return made


@pytest.mark.kafka
@pytest.mark.parametrize("pods_are", ["apart", "a fleet"])
def test_a_rolling_restart_loses_nothing_and_no_partition_has_two_owners(
    pods_are, kafka, folder, tmp_path, record_property
):
    if haproxy.program() is None:
        without(Need.CHART, "haproxy is not installed")
    fleet = {
        "kafka": {"bootstrap.servers": kafka.bootstrap},
        "topic": f"members-{uuid.uuid4().hex[:8]}",
        "replication": 1,
        "expires": True,
    }
    names = [f"{kind}-{number}" for kind, (_assignor, count) in MEMBERS.items() for number in range(count)]
    with rollout.service(
        kafka.bootstrap,
        names,
        ["a1", "b1", "a2", "b2"],
        folder,
        tmp_path / "control",
        fleet if pods_are == "a fleet" else None,
    ) as service:
        groups = {
            kind: Group(kind, assignor, kafka, Consumers(folder)) for kind, (assignor, _n) in MEMBERS.items()
        }
        try:
            service.create("a1")
            service.create("b1")
            for name in names:
                groups[name.split("-")[0]].start(name, service.bootstrap(name))
            settle(groups)
            assert {service.connected(pod) > 0 for pod in ("a1", "b1")} == {True}
            marks = {kind: group.marks() for kind, group in groups.items()}

            for old, new in (("a1", "a2"), ("b1", "b2")):
                service.create(new)
                produce(groups)
                service.delete(old)
                produce(groups)
                service.pods[old].wait(DRAIN_S)
                assert service.connected(old) == 0
            settle(groups)

            costs = {kind: group.cost(marks[kind]) for kind, group in groups.items()}
            costs["drain_s"] = {name: round(service.pods[name].drained_s, 2) for name in ("a1", "b1")}
        finally:
            for group in groups.values():
                group.consumers.end()
    name = "drain.json" if pods_are == "apart" else "drain-fleet.json"
    (ROOT / "build" / "chart" / name).write_text(json.dumps(costs, indent=2) + "\n")
    record_property("drain", costs)
    if pods_are == "a fleet":
        for kind in groups:
            assert costs[kind]["members_that_gave_up_or_got_partitions"] == 0, costs
            assert costs[kind]["pauses_of_partitions"] == 0, costs
    for group in groups.values():
        assert overlaps(group.consumers.logs) == []
        found = account(group.produced(), group.consumers.logs)
        assert not found.lost, str(found)
        assert not found.unexpected, str(found)


class Group:
    """The members of one group, with a topic of their own."""

    def __init__(self, kind, assignor, kafka, consumers):
        self.kind = kind
        self.consumers = consumers
        self.records = []
        self._kafka = kafka
        self._assignor = assignor
        self._topic = kafka.new_topic(kind, partitions=PARTITIONS)
        self._group = f"{kind}-{uuid.uuid4().hex[:8]}"

    def start(self, name, bootstrap):
        self.consumers.start(
            CONFLUENT,
            bootstrap,
            self._group,
            self._topic,
            self._assignor,
            name=name,
            session_timeout_ms=20_000,
        )

    def produce(self):
        self.records += self._kafka.produce(self._topic, RECORDS)

    def produced(self):
        return {(Partition(at.topic, at.partition), at.offset): at.value for at in self.records}

    def settled(self):
        """Every partition has one owner, every member has its share, and all that was written is read."""
        owned = [member.owned() for member in self.consumers.all]
        everything = {Partition(self._topic, number) for number in range(PARTITIONS)}
        shared = sum(map(len, owned)) == PARTITIONS and set().union(*owned) == everything and all(owned)
        return shared and self.produced().keys() <= set().union(
            *(member.consumed() for member in self.consumers.all)
        )

    def marks(self):
        return {member.name: member.mark() for member in self.consumers.all}

    def cost(self, marks):
        """What the members went through since then."""
        began = max(member.events[marks[member.name] - 1].mono for member in self.consumers.all)
        pauses = [gap.seconds for gap in gaps(self.consumers.logs) if gap.begin > began]
        stopped = [
            member
            for member in self.consumers.all
            if any(event.partitions for event in member.callbacks(marks[member.name]))
        ]
        found = account(self.produced(), self.consumers.logs)
        return {
            "members": len(self.consumers.all),
            "members_that_gave_up_or_got_partitions": len(stopped),
            "partitions": PARTITIONS,
            "pauses_of_partitions": len(pauses),
            "longest_pause_s": round(max(pauses, default=0.0), 3),
            "median_pause_s": round(statistics.median(pauses), 3) if pauses else 0.0,
            "records": len(self.records),
            "records_read_twice": len(found.duplicates),
        }


def produce(groups):
    for group in groups.values():
        group.produce()


def settle(groups):
    produce(groups)
    for group in groups.values():
        group.consumers.wait_until(group.settled, f"the group {group.kind} has settled", timeout_s=90)
