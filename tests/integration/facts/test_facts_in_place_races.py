"""Conversions in place while something else goes on in the group: see docs/evidence/in-place.md."""

import pytest
from confluent_kafka.admin import NewPartitions
from kio.schema.errors import ErrorCode
from support.in_place import Conversion, held, settle, until
from support.raw_new_member import LEAVE, RawNewMember
from support.waiting import eventually, stays

PARTITIONS = 6
WATCHED_S = 3.0

pytestmark = pytest.mark.kafka


@pytest.fixture
def conversion(kafka, group):
    with Conversion(kafka, group, kafka.new_topic(partitions=PARTITIONS)) as conversion:
        yield conversion


def targets(conversion):
    """All partitions of the topic that are somebody's target, and how many members have each."""
    members = conversion.view().members
    return sorted(number for member in members for number in member.target.get(conversion.topics[0], ()))


def owned_by_all(natives):
    for native in natives:
        if native.beat().assignment is not None:
            native.full(native.shares)
    return sorted(number for native in natives for number in native.owned)


# -- what was unfinished stays so until the epoch moves -------------------------------------------------------


def test_the_partitions_of_a_member_that_has_just_left_are_nobodys_until_the_helper_leaves(conversion):
    first, second, third = conversion.form()
    before = [first.shares, second.shares]
    assert first.heartbeat() == ErrorCode.none
    third.leave()
    helper = conversion.helper()
    generation = int(first.generation)
    assert helper.epoch == generation
    natives = [conversion.convert(member) for member in (first, second)]
    missing = set(range(PARTITIONS)) - set(targets(conversion))
    assert missing == third.owned
    stays(lambda: owned_by_all(natives), lambda seen: not missing & set(seen), what="frozen", for_s=WATCHED_S)
    helper.beat(LEAVE)
    settle(natives, generation + 1)
    eventually(
        lambda: owned_by_all(natives), lambda seen: seen == list(range(PARTITIONS)), what="all have one"
    )
    for native, had in zip(natives, before, strict=True):
        assert native.owned >= had[conversion.topics[0]]


def test_a_client_whose_join_group_waited_has_nothing_until_the_helper_leaves(conversion):
    members = conversion.form(2)
    joiner = conversion.connect()
    joiner.send_join()
    until(members[0], ErrorCode.rebalance_in_progress)
    helper = conversion.helper()
    with pytest.raises(AssertionError, match="rebalance_in_progress"):
        joiner.receive_join()
    generation = conversion.generation
    assert {member.heartbeat() for member in members} == {ErrorCode.none}  # no more 27
    joiner.rejoin_alone()
    assert (joiner.generation, held(joiner.shares)) == (generation, {})
    natives = conversion.convert_all()
    stays(joiner.heartbeat, lambda code: code == ErrorCode.none, what="it has nothing", for_s=WATCHED_S)
    helper.beat(LEAVE)

    def look():
        owned_by_all(natives)
        return joiner.heartbeat()

    eventually(look, lambda code: code == ErrorCode.rebalance_in_progress, what="it has to join again")

    def its_partitions():
        look()
        joiner.rejoin_alone()
        return joiner.owned

    eventually(its_partitions, lambda owned: len(owned) == PARTITIONS // 3, what="it has its share")
    eventually(
        lambda: sorted([*owned_by_all(natives), *joiner.owned]),
        lambda seen: seen == list(range(PARTITIONS)),
        what="each has one owner",
    )


def test_partitions_added_before_the_conversion_are_nobodys_until_the_helper_leaves(kafka, conversion):
    members = conversion.form()
    (topic,) = conversion.topics
    kafka.admin.create_partitions([NewPartitions(topic, PARTITIONS + 2)])[topic].result(timeout=60)
    with RawNewMember(kafka, f"{conversion.group}-other", topic) as other:
        other.join().until_owns(PARTITIONS + 2)
    assert {member.heartbeat() for member in members} == {ErrorCode.none}
    helper = conversion.helper()
    natives = conversion.convert_all()
    assert targets(conversion) == list(range(PARTITIONS))
    stays(lambda: owned_by_all(natives), lambda seen: len(seen) == PARTITIONS, what="frozen", for_s=WATCHED_S)
    helper.beat(LEAVE)
    eventually(
        lambda: owned_by_all(natives),
        lambda seen: seen == list(range(PARTITIONS + 2)),
        what="the new ones have an owner",
    )
    for native, member in zip(natives, members, strict=True):
        assert native.owned >= member.owned


def test_a_topic_that_the_coordinator_does_not_know_yet_is_lost_in_a_conversion(kafka, conversion):
    """The answers are without an error; ConsumerGroupDescribe shows it before a member is converted."""

    def converted_at_once():
        topic = kafka.new_topic(partitions=PARTITIONS)
        with Conversion(kafka, f"{conversion.group}-{topic}", topic, partitions=PARTITIONS) as late:
            member = late.connect()
            member.join()
            member.sync_as({member.member_id: {topic: frozenset(range(PARTITIONS))}})
            assert late.helper().epoch == member.generation
            shown = {one.member_id: one.assignment for one in late.view().members}
            assert member.heartbeat() == ErrorCode.none
            return shown[member.member_id]

    eventually(converted_at_once, lambda shown: not shown, what="the topic was missing", between_s=0)


# -- the target moves before a member is converted ------------------------------------------------------------


def test_epoch_0_gives_a_partition_to_another_member_while_the_client_works_on_it_since_4_2(
    kafka, conversion
):
    second, taken, newcomer = _taken_from_a_classic_member(conversion)
    native = conversion.native(second.member_id)
    answer = native.full(epoch=0)
    if kafka.version < "4.2":
        assert answer.error_code == ErrorCode.fenced_member_epoch
        return
    assert (answer.error_code, native.owned) == (ErrorCode.none, second.owned - taken)
    assert answer.member_epoch > second.generation
    newcomer.full(newcomer.shares)
    assert newcomer.owned >= taken


def test_the_true_list_keeps_a_partition_until_the_member_has_acknowledged(conversion):
    second, taken, newcomer = _taken_from_a_classic_member(conversion)
    native = conversion.native(second.member_id)
    for _ in range(2):  # a lost answer: the same again
        answer = native.full(second.shares, epoch=int(second.generation))
        assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, second.generation)
        assert native.owned == second.owned - taken
        newcomer.full(newcomer.shares)
        assert not newcomer.owned & taken
    native.full(native.shares)
    newcomer.full(newcomer.shares)
    assert newcomer.owned >= taken


def _taken_from_a_classic_member(conversion):
    """A native member joins beside classic ones; one of these has to give something up. It, what, and the native."""
    members = conversion.form(2)
    generation = conversion.generation
    conversion.helper()
    newcomer = conversion.native().join()
    topic = conversion.topics[0]

    def look():
        newcomer.full(newcomer.shares)
        shown = {one.member_id: one.target.get(topic, frozenset()) for one in conversion.view().members}
        return [(member, member.owned - shown[member.member_id]) for member in members]

    both = eventually(look, lambda seen: any(taken for _, taken in seen), what="the target has moved")
    member, taken = next((member, taken) for member, taken in both if taken)
    assert member.generation == generation
    return member, taken, newcomer


# -- lost answers ---------------------------------------------------------------------------------------------


def test_a_lost_answer_with_a_newer_epoch_is_repeated_by_the_same_call_but_not_after_another_one(conversion):
    """Two answers lost and the epoch moved in both: 110, although it is a member. Describe has its epoch."""
    first, *_ = conversion.form()
    generation = conversion.generation
    helper = conversion.helper()

    def moved_on():
        conversion.helper().beat(LEAVE)
        before = helper.epoch
        settle([helper], before + 1)

    moved_on()
    lost = conversion.native(first.member_id)
    for _ in range(2):
        answer = lost.full(first.shares, epoch=generation)
        assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, generation + 1)
        assert lost.shares == first.shares
    moved_on()
    assert lost.full(first.shares, epoch=generation).member_epoch == generation + 2  # and this is lost too
    answer = lost.full(first.shares, epoch=generation)
    assert answer.error_code == ErrorCode.fenced_member_epoch
    shown = {one.member_id: one for one in conversion.view().members}[first.member_id]
    assert shown.assignment == first.shares
    answer = lost.full(first.shares, epoch=shown.member_epoch)
    assert (answer.error_code, lost.shares) == (ErrorCode.none, first.shares)


# -- JoinGroups that are held -----------------------------------------------------------------------------------


def test_a_stable_group_ends_a_member_whose_client_waits_for_its_join_group_unless_heartbeats_are_sent_for_it(
    conversion,
):
    """Whoever holds JoinGroups until all members have sent one has to send Heartbeats for those that wait."""
    first, second, third = conversion.form(session_timeout_ms=2_000)
    works = {first, second}

    def look():
        return {member.heartbeat() for member in works}

    works.add(third)
    stays(look, lambda codes: codes == {ErrorCode.none}, what="all remain", for_s=WATCHED_S)
    works.remove(third)
    eventually(look, lambda codes: codes == {ErrorCode.rebalance_in_progress}, what="the third is removed")
    assert third.heartbeat() == ErrorCode.unknown_member_id
