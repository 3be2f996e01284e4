"""A member of the new protocol whose topic does not exist yet is not kept in JoinGroup, and hears when it does."""

import time
import uuid

import pytest
from support.raw_member import REBALANCE_IN_PROGRESS, RawMember
from support.waiting import eventually

PARTITIONS = 2
WAITS_S = 3.0
"""``topics_asked_after_s`` of the translation."""
PATIENCE_S = 10.0
"""What the same client would wait for partitions of a topic that exists (``join_wait_s``)."""

pytestmark = pytest.mark.kafka


def test_a_client_of_a_topic_that_does_not_exist_joins_soon_and_is_told_when_it_is_there(kafka, entries):
    entry, topic = entries["translate"], f"later-{uuid.uuid4().hex[:8]}"
    with RawMember(entry.bootstrap, entry.new_group(), topic) as member:
        began = time.monotonic()
        member.join()
        assert WAITS_S <= time.monotonic() - began < PATIENCE_S
        assert member.sync() == {}
        kafka.new_topic(name=topic, partitions=PARTITIONS)
        eventually(
            member.heartbeat, lambda code: code == REBALANCE_IN_PROGRESS, what="it is told of the topic"
        )
        member.join()
        assert member.sync() == {topic: frozenset(range(PARTITIONS))}
