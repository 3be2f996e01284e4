"""Members of share groups and streams groups behind the proxy: it shows what the broker itself says of them."""

import json
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.schema.streams_group_describe.v0.request import StreamsGroupDescribeRequest
from support import raw
from support.entry import Proxy, running_proxy
from support.raw_streams_member import RawStreamsMember
from support.share import SHARE_CONSUMER, configure_group
from support.waiting import eventually

from tests.skips import not_here

pytestmark = pytest.mark.kafka

PARTITIONS = 4

Shown = dict[str, tuple[int, set[tuple[str, str, int]]]]
"""Epoch of each member, and what it has: (role, topic or subtopology, number)."""


@pytest.fixture(autouse=True)
def _released(kafka) -> None:
    if kafka.version < "4.2":
        not_here(f"Kafka {kafka.version} has share groups and streams groups as a preview only")


@pytest.fixture
def proxy(kafka, folder) -> Iterator[Proxy]:
    with running_proxy(kafka.bootstrap, folder / "proxy") as proxy:
        yield proxy


def shown(proxy: Proxy, group: str) -> dict[str, Any]:
    """The group in /api/groups; no members if no member of it was seen yet."""
    try:
        with urllib.request.urlopen(f"{proxy.admin}/api/groups/{group}", timeout=5) as answer:  # noqa: S310 - ours
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return {"members": ()}


def members(proxy: Proxy, group: str) -> Shown:
    return {
        member["id"]: (
            member["epoch"],
            {
                (topic.get("role", ""), topic["topic"], number)
                for topic in member["partitions"] or ()
                for number in topic["partitions"]
            },
        )
        for member in shown(proxy, group)["members"]
    }


def test_share_consumers_are_shown_with_what_the_broker_lets_them_read(kafka, proxy, consumers, group):
    topic = kafka.new_topic(partitions=PARTITIONS)
    configure_group(kafka, group, 60_000)
    for name in ("s1", "s2"):
        told = {"bootstrap": proxy.bootstrap, "group": group, "topic": topic, "client_id": name}
        consumers.start(
            SHARE_CONSUMER, proxy.bootstrap, group, topic, name=name, only=told | {"mode": "implicit"}
        )
    records = kafka.produce(topic, 20)
    assert records

    def at_broker() -> Shown:
        with raw.to_coordinator(kafka.bootstrap, group) as connection:
            request = ShareGroupDescribeRequest(group_ids=(group,), include_authorized_operations=False)
            (described,) = connection.call(request).groups
        return {
            member.member_id: (
                member.member_epoch,
                {
                    ("", topic.topic_name, number)
                    for topic in member.assignment.topic_partitions
                    for number in topic.partitions
                },
            )
            for member in described.members
        }

    eventually(
        lambda: (members(proxy, group), at_broker()),
        lambda pair: pair[0] == pair[1] and len(pair[0]) == 2 and all(owned for _, owned in pair[0].values()),
        what="both are shown as the broker describes them",
        between_s=0.3,
    )
    assert shown(proxy, group)["protocol"] == "share"
    assert 'epochgate_members{mode="observe",protocol="share",state="Stable"} 2.0' in proxy.metrics()
    eventually(
        proxy.metrics,
        lambda shown: "epochgate_share_sessions_open 2.0" in shown,
        what="both consumers have an open share session",
    )
    for consumer in consumers.all:
        consumer.close()
    eventually(lambda: members(proxy, group), lambda left: not left, what="nobody is shown any more")
    eventually(
        proxy.metrics,
        lambda shown: "epochgate_share_sessions_open 0.0" in shown,
        what="no share session is open any more",
    )


def test_members_of_a_streams_group_are_shown_with_the_tasks_that_the_broker_gives_them(kafka, proxy, group):
    topic = kafka.new_topic(partitions=PARTITIONS)

    def at_broker() -> Shown:
        with raw.to_coordinator(kafka.bootstrap, group) as connection:
            request = StreamsGroupDescribeRequest(group_ids=(group,), include_authorized_operations=False)
            (described,) = connection.call(request).groups
        found: defaultdict[str, set[tuple[str, str, int]]] = defaultdict(set)
        for member in described.members:
            for role, tasks in (
                ("active", member.assignment.active_tasks),
                ("standby", member.assignment.standby_tasks),
                ("warm_up", member.assignment.warmup_tasks),
            ):
                found[member.member_id] |= {
                    (role, one.subtopology_id, number) for one in tasks for number in one.partitions
                }
        return {
            member.member_id: (member.member_epoch, found[member.member_id]) for member in described.members
        }

    streams: list[RawStreamsMember] = []

    def settled(tasks: int) -> None:
        def beat() -> tuple[Shown, Shown]:
            for member in streams:
                member.beat()
            return members(proxy, group), at_broker()

        eventually(
            beat,
            lambda pair: (
                pair[0] == pair[1] and [len(owned) for _, owned in pair[0].values()] == [tasks] * len(streams)
            ),
            what=f"{len(streams)} members with {tasks} tasks each are shown as the broker describes them",
            between_s=0.3,
        )

    streams.append(RawStreamsMember(proxy.bootstrap, group, topic))
    settled(tasks=4)
    streams.append(RawStreamsMember(proxy.bootstrap, group, topic))
    settled(tasks=2)
    assert shown(proxy, group)["protocol"] == "streams"
    kinds = [event["kind"] for event in shown(proxy, group)["events"]]
    assert {"joined", "assigned", "revoke_requested", "revoked"} <= set(kinds)
    for member in streams:
        member.close()
