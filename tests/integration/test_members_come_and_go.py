"""Two consumers share a topic, a third joins, one is killed, one leaves: what must hold of support/story.py.

Each story runs once; the tests below ask different things of it.
"""

import pytest
from support.clients import ALL, COOPERATIVE, EVERY_ASSIGNOR
from support.short_form import first_assignor, first_or_last_assignor, shortened
from support.story import MOVES_WITHOUT_NEED, ONLOOKER, Case, Story, tell

CASES = [
    *shortened((Case("direct", *how) for how in EVERY_ASSIGNOR), first_assignor),
    *(Case("observe", kind, kind.assignors[-1]) for kind in ALL),
    *shortened((Case("translate", *how) for how in EVERY_ASSIGNOR), first_or_last_assignor),
]

pytestmark = [pytest.mark.kafka, pytest.mark.parametrize("case", CASES, ids=str, scope="module")]


@pytest.fixture(scope="module")
def story(case: Case, entry, kafka, empty_folder) -> Story:
    return tell(case, entry, kafka, empty_folder(f"story-{case}"))


@pytest.mark.scenario("every record is read once")
def test_every_record_is_read_once(story):
    assert story.accounting.each_once, story.accounting


@pytest.mark.scenario("a third joins, one is killed, one leaves: partitions complete, one owner each")
def test_no_partition_has_two_owners_at_any_moment(story, record_property):
    assert story.overlaps == [], "\n".join(map(str, story.overlaps))
    for step in story.steps.values():
        record_property(f"{step.name}_s", round(step.settled_s, 2))
    record_property("longest_gap_s", round(max((gap.seconds for gap in story.gaps), default=0), 2))


@pytest.mark.scenario("members whose partitions stay see no callback")
def test_a_member_whose_partitions_stay_the_same_sees_no_callback(case, entry, story, kafka, record_property):
    untouched = [(step, name) for step in story.steps.values() for name in step.untouched]
    seen = [event for step, name in untouched for event in step.callbacks[name]]
    record_property("untouched", len(untouched))
    record_property("callbacks_of_untouched", len(seen))
    if entry.translates:
        if kafka.version not in MOVES_WITHOUT_NEED:
            assert untouched, "the story is made so that there is such a member"
        assert seen == [], "\n".join(map(str, seen))
    elif case.assignor == COOPERATIVE:  # they hear of every rebalance, but keep what they have
        assert not any(event.partitions for event in seen), "\n".join(map(str, seen))
    else:  # what the proxy spares an eager client: it gives up everything, only to be given the same again
        assert all(step.callbacks[name][0].partitions == step.before[name] for step, name in untouched)


@pytest.mark.scenario("the broker shows members of the new protocol")
def test_the_broker_shows_a_group_of_the_new_protocol(entry, story, kafka):
    if not entry.translates:
        assert kafka.describe(story.group) is None
        return
    onlookers = 0 if story.onlooker is None else 1
    sizes = {"together": 2, "join": 3, "kill": 2, "leave": 1}
    epochs = [story.steps[name].group.group_epoch for name in sizes]
    assert epochs == sorted(set(epochs))
    for name, size in sizes.items():
        group = story.steps[name].group
        assert len(group.members) == size + onlookers
        assert group.assignment_epoch == group.group_epoch
        for member in group.members:
            assert member.member_type == "consumer"
            assert member.member_epoch == group.group_epoch
            assert member.subscribed_topics == {
                story.onlooker if member.client_id == ONLOOKER else story.topic
            }
            assert member.assignment == member.target


@pytest.mark.scenario("the last commits are at the end of every partition")
def test_what_was_read_is_committed(story):
    assert story.offsets == story.ends
