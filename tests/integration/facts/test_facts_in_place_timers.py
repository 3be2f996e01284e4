"""What brokers still time of a classic membership after its conversion: see docs/evidence/in-place.md.

In a consumer group the broker times a classic member's JoinGroup (from the first 27 that it answers) and SyncGroup
(from the JoinGroup) by its rebalance timeout. Only JoinGroup and SyncGroup to a consumer group end these timers.
"""

import time

import pytest
from kio.schema.errors import ErrorCode
from support.in_place import Conversion, settle, until
from support.raw_new_member import LEAVE
from support.waiting import eventually, stays

PARTITIONS = 6
REBALANCE_TIMEOUT_MS = 3_000
LONGER_S = 5.0

pytestmark = pytest.mark.kafka


@pytest.fixture
def conversion(kafka, group):
    with Conversion(kafka, group, kafka.new_topic(partitions=PARTITIONS)) as conversion:
        conversion.form(rebalance_timeout_ms=REBALANCE_TIMEOUT_MS)
        yield conversion


def has_to_rejoin(conversion, helper):
    """The group epoch moves, and each classic member's Heartbeat is answered 27. Returns the time of the first."""
    conversion.helper().beat(LEAVE)
    settle([helper], conversion.generation + 1)
    first_s = time.monotonic()
    for member in conversion.members:
        until(member, ErrorCode.rebalance_in_progress)
    return first_s


def until_removed(natives, since_s):
    def look():
        return [native.beat().error_code for native in natives]

    eventually(look, lambda codes: set(codes) == {ErrorCode.unknown_member_id}, what="all are removed")
    assert time.monotonic() - since_s > REBALANCE_TIMEOUT_MS / 1000 - 0.5


def remain(natives):
    stays(
        lambda: {native.beat().error_code for native in natives},
        lambda codes: codes == {ErrorCode.none},
        what="all are members",
        for_s=LONGER_S,
    )


def test_a_member_that_was_converted_after_a_27_is_removed_when_the_time_for_its_join_group_ends(conversion):
    first, *_ = conversion.members
    generation = conversion.generation
    since_s = has_to_rejoin(conversion, conversion.helper())
    native = conversion.native(first.member_id)
    answer = native.full(first.shares, epoch=generation)
    assert (answer.error_code, answer.member_epoch, native.shares) == (0, generation + 1, first.shares)
    until_removed([native], since_s)


def test_a_member_that_was_converted_before_its_sync_group_is_removed_when_the_time_for_it_ends(conversion):
    first, *_ = conversion.members
    conversion.helper()
    since_s = time.monotonic()
    first.join(first.shares)
    until_removed([conversion.convert(first)], since_s)


def test_the_time_for_a_join_group_outlives_a_downgrade_the_rebalance_after_it_and_the_next_conversion(
    conversion,
):
    helper = conversion.helper()
    since_s = has_to_rejoin(conversion, helper)
    helper.beat(LEAVE)
    conversion.rebalance()
    assert conversion.classic_state() == "Stable"
    assert {member.heartbeat() for member in conversion.members} == {ErrorCode.none}
    conversion.helper()
    until_removed(conversion.convert_all(), since_s)


def test_join_group_and_sync_group_before_the_conversion_end_both_timers(conversion):
    helper = conversion.helper()
    has_to_rejoin(conversion, helper)
    helper.beat(LEAVE)
    conversion.rebalance()
    generation, shares = conversion.generation, [member.shares for member in conversion.members]
    conversion.helper()
    natives = []
    for member in conversion.members:
        member.rejoin_alone()
        assert member.generation == generation
        natives.append(conversion.convert(member))
    assert [native.shares for native in natives] == shares
    remain(natives)


def test_a_27_of_a_classic_group_is_not_timed_in_the_consumer_group(conversion):
    first, *_ = conversion.members
    joiner = conversion.connect()
    joiner.send_join()
    until(first, ErrorCode.rebalance_in_progress)
    conversion.helper()
    remain([conversion.convert(first)])
