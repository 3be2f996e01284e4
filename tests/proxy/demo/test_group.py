"""What a group is taken to be, from the reports of its consumers."""

import pytest

from proxy.demo.group import DemoGroup, Presence
from proxy.demo.reports import Assigned, Consumed, Left, Revoked


@pytest.fixture
def line_added() -> list[str]:
    return []


@pytest.fixture
def group(line_added) -> DemoGroup:
    group = DemoGroup("Classic", "g", 2, line_added.append)
    group.started("a", 0)
    return group


def test_a_group_is_complete_when_each_partition_has_one_holder(group):
    assert not group.is_complete()
    group.apply_report("a", Assigned(1, (0,)))
    assert not group.is_complete()
    group.apply_report("a", Assigned(2, (1,)))
    assert group.is_complete()


def test_a_group_is_not_complete_while_a_consumer_has_nothing(group):
    group.apply_report("a", Assigned(1, (0, 1)))
    group.started("b", 2)
    assert not group.is_complete()


def test_a_group_is_not_complete_while_a_partition_has_two_holders(group):
    group.started("b", 0)
    group.apply_report("a", Assigned(1, (0, 1)))
    group.apply_report("b", Assigned(1, (1,)))
    assert not group.is_complete()


def test_a_killed_consumer_holds_nothing_and_is_no_member(group):
    group.started("b", 0)
    group.apply_report("a", Assigned(1, (0,)))
    group.apply_report("b", Assigned(1, (1,)))
    group.killed("b", 5)
    assert group.members() == ["a"]
    assert group.history.owners() == {0: ["a"]}
    assert group.consumers["b"].presence is Presence.KILLED


def test_a_consumer_without_partitions_has_stopped_since_its_revoke_callback_began(group):
    group.apply_report("a", Assigned(1, (0, 1)))
    group.apply_report("a", Revoked(5, 6, (0, 1)))
    assert (group.consumers["a"].presence, group.consumers["a"].since_ns) == (Presence.STOPPED, 5)


def test_a_consumer_that_keeps_partitions_reads_on(group, line_added):
    group.apply_report("a", Assigned(1, (0, 1)))
    group.apply_report("a", Revoked(5, 6, (1,)))
    assert group.consumers["a"].presence is Presence.READING
    assert line_added[-1] == "a gives up 1 and keeps 0"


def test_a_consumer_that_was_told_to_leave_is_leaving_until_it_has_left(group):
    group.apply_report("a", Assigned(1, (0, 1)))
    group.leaving("a", 2)
    group.apply_report("a", Revoked(5, 6, (0, 1)))
    assert group.consumers["a"].presence is Presence.LEAVING
    group.apply_report("a", Left(7))
    assert group.consumers["a"].presence is Presence.LEFT


def test_records_are_counted(group):
    group.apply_report("a", Consumed((0, 1)))
    group.apply_report("a", Consumed((1,)))
    assert (group.records.distinct, group.records.duplicates) == (2, 1)


def test_who_holds_what_can_be_told(group):
    group.started("b", 0)
    group.apply_report("a", Assigned(1, (0, 1)))
    assert group.ownership() == "in Classic a holds 0-1, b holds nothing"
