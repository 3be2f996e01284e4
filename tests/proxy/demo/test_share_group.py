"""What the share group's story makes of its consumers' reports."""

import pytest

from proxy.demo.reports import Acknowledged, Delivered, Left
from proxy.demo.share.group import DemoShareGroup, Presence


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def group(lines: list[str]) -> DemoShareGroup:
    group = DemoShareGroup("g", lines.append)
    for name in ("a", "b"):
        group.started(name)
    return group


def test_a_released_record_came_again_when_somebody_accepts_it(group: DemoShareGroup):
    group.apply_report("a", Delivered(1, ((7, 1), (8, 1))))
    group.apply_report("a", Acknowledged(2, accepted=(8,), released=(7,)))
    assert group.came_again() == 0
    group.apply_report("b", Delivered(3, ((7, 2),)))
    group.apply_report("b", Acknowledged(4, accepted=(7,), released=()))
    assert group.came_again() == 1
    assert group.deliveries[7] == 2
    assert [(one.accepted, one.released) for one in group.consumers.values()] == [(1, 1), (1, 0)]


def test_all_work_when_each_member_has_accepted_something(group: DemoShareGroup):
    group.apply_report("a", Acknowledged(1, accepted=(1,), released=()))
    assert not group.all_work()
    group.apply_report("b", Left(2))
    assert group.all_work()


def test_how_long_the_records_of_a_killed_consumer_waited(group: DemoShareGroup):
    group.apply_report("a", Delivered(1_000_000, ((1, 1), (2, 1)), holds=True))
    group.killed("a", 2_000_000)
    group.apply_report("b", Delivered(5_000_000, ((1, 2),)))
    group.apply_report("b", Delivered(9_000_000, ((2, 2),)))
    group.apply_report("b", Delivered(30_000_000, ((2, 3), (3, 1))))
    assert group.held == (1, 2)
    assert group.taken_over_after_ms == pytest.approx(7.0)
    assert group.consumers["a"].presence is Presence.KILLED
    assert group.members() == ["b"]


def test_many_releases_are_one_line(group: DemoShareGroup, lines: list[str]):
    group.apply_report("a", Delivered(1, tuple((number, 1) for number in range(0, 80, 10))))
    group.apply_report("a", Acknowledged(2, accepted=(), released=tuple(range(0, 80, 10))))
    assert lines == ["a releases 0, 10, 20, 30, 40 and 3 more, delivery 1"]


def test_nothing_more_is_done_about_a_record_that_was_given_up(group: DemoShareGroup):
    group.delivery_limit = 2
    group.apply_report("a", Acknowledged(1, accepted=(1,), released=(2, 3)))
    assert group.done == 1
    group.apply_report("b", Acknowledged(2, accepted=(), released=(2, 3)))
    assert group.done == 3
    group.apply_report("a", Acknowledged(3, accepted=(2,), released=()))
    assert group.done == 3
