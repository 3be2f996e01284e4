"""A classic member that heartbeats and sends no SyncGroup is removed when its rebalance timeout ends.

Kafka does so in a classic group and, beside a member of the new protocol, in a consumer group; so does the proxy.
"""

import contextlib
import time

import pytest
from support.raw_member import NONE, Offer, RawMember
from support.raw_new_member import RawNewMember
from support.waiting import eventually

pytestmark = pytest.mark.kafka

REBALANCE_MS = 4_000
UNKNOWN_MEMBER_ID = 25


@pytest.mark.parametrize(
    ("mode", "beside_a_new_member"),
    [("direct", False), ("direct", True), ("translate", False)],
    ids=["classic group", "consumer group", "translated"],
)
def test_a_member_that_never_syncs_is_removed_when_its_rebalance_timeout_ends(
    kafka, entries, mode, beside_a_new_member
):
    entry = entries[mode]
    group, topic = entry.new_group(), kafka.new_topic(partitions=2)
    with contextlib.ExitStack() as stack:
        native = (
            stack.enter_context(RawNewMember(kafka, group, topic).join().until_owns(2))
            if beside_a_new_member
            else None
        )
        member = stack.enter_context(
            RawMember(
                entry.bootstrap,
                group,
                topic,
                rebalance_timeout_ms=REBALANCE_MS,
                offer=Offer(subscription_version=3),
            )
        )

        def beat() -> int:
            if native is not None:
                native.full(native.owned)
            return member.heartbeat()

        def join_and_beat() -> int:
            member.join()
            joined_at.append(time.monotonic())
            return beat()

        member.join()
        if native is not None:
            native.until_owns(1)
        joined_at: list[float] = []
        eventually(join_and_beat, lambda code: code == NONE, what="the group stands still", between_s=1.0)
        code = eventually(beat, lambda code: code != NONE, what="the member is removed", between_s=0.2)

        assert code == UNKNOWN_MEMBER_ID
        assert REBALANCE_MS * 0.95 <= (time.monotonic() - joined_at[-1]) * 1000 < REBALANCE_MS * 2
