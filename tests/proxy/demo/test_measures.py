"""What a step cost, from histories that are planted here: times are in seconds, the history's in nanoseconds."""

import pytest

from proxy.demo.history import History
from proxy.demo.measures import StepCost, Window, overlaps, step_cost, total

STEP = (10, 20)


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


class Callbacks:
    """A history, told in seconds."""

    def __init__(self) -> None:
        self.history = History()

    def assigned(self, consumer: str, at_s: float, *partitions: int) -> None:
        self.history.assigned(consumer, ns(at_s), partitions)

    def revoked(self, consumer: str, at_s: float, *partitions: int, took_s: float = 0.0) -> None:
        self.history.revoked(consumer, ns(at_s), ns(at_s + took_s), partitions)

    def killed(self, consumer: str, at_s: float) -> None:
        self.history.ended(consumer, ns(at_s))

    def cost(self, *bystanders: str, partitions: int, window: tuple[float, float] = STEP):
        began, ended = window
        return step_cost(
            self.history,
            Window(ns(began), ns(ended)),
            partitions=range(partitions),
            bystanders=bystanders,
            read_again=0,
        )

    def overlaps(self):
        return overlaps(self.history, ns(STEP[1]))


@pytest.fixture
def ownership() -> Callbacks:
    return Callbacks()


def test_nobody_stops_when_nothing_happens(ownership):
    ownership.assigned("a", 1, 0)
    ownership.assigned("b", 1, 1)
    cost = ownership.cost("a", "b", partitions=2)
    assert (cost.bystanders, cost.stopped, cost.stopped_s) == (2, 0, 0.0)
    assert (cost.callbacks, cost.unread_s, cost.longest_s) == (0, 0.0, 0.0)


def test_an_eager_rebalance_stops_everybody_until_all_have_joined(ownership):
    ownership.assigned("a", 1, 0, 1)
    ownership.assigned("b", 1, 2, 3)
    ownership.revoked("a", 11, 0, 1)
    ownership.revoked("b", 13, 2, 3)
    ownership.assigned("a", 14, 0)
    ownership.assigned("b", 14, 2)
    ownership.assigned("c", 14, 1, 3)
    cost = ownership.cost("a", "b", partitions=4)
    assert (cost.stopped, cost.stopped_s) == (2, pytest.approx(3 + 1))
    assert (cost.unread_s, cost.longest_s) == (pytest.approx(3 + 3 + 1 + 1), pytest.approx(3))
    assert cost.callbacks == 4  # what c is called back for does not count: it was not there before


def test_a_consumer_that_keeps_one_partition_has_not_stopped(ownership):
    ownership.assigned("a", 1, 0, 1)
    ownership.revoked("a", 11, 1)
    ownership.assigned("b", 13, 1)
    cost = ownership.cost("a", partitions=2)
    assert (cost.stopped, cost.stopped_s) == (0, 0.0)
    assert (cost.callbacks, cost.unread_s) == (1, pytest.approx(2))


def test_a_consumer_that_stops_twice_counts_once_with_both_times(ownership):
    ownership.assigned("a", 1, 0)
    for stop, go in ((11, 12), (14, 16)):
        ownership.revoked("a", stop, 0)
        ownership.assigned("a", go, 0)
    cost = ownership.cost("a", partitions=1)
    assert (cost.stopped, cost.stopped_s) == (1, pytest.approx(1 + 2))


def test_a_killed_consumer_reads_until_it_is_dead_and_is_no_bystander(ownership):
    ownership.assigned("a", 1, 0)
    ownership.assigned("b", 1, 1)
    ownership.killed("b", 11)
    ownership.assigned("a", 17, 1)
    cost = ownership.cost("a", partitions=2)
    assert (cost.bystanders, cost.stopped) == (1, 0)
    assert (cost.unread_s, cost.longest_s) == (pytest.approx(6), pytest.approx(6))


def test_a_stop_ends_with_the_window_if_the_consumer_never_reads_again(ownership):
    ownership.assigned("a", 1, 0)
    ownership.revoked("a", 18, 0)
    cost = ownership.cost("a", partitions=1)
    assert (cost.stopped_s, cost.unread_s) == (pytest.approx(2), pytest.approx(2))


def test_a_stop_across_two_steps_is_divided_between_them(ownership):
    ownership.assigned("a", 1, 0)
    ownership.revoked("a", 9, 0)
    ownership.assigned("a", 12, 0)
    before = ownership.cost("a", partitions=1, window=(0, 10))
    after = ownership.cost("a", partitions=1, window=(10, 20))
    assert before.stopped_s == pytest.approx(1 + 1)  # the first second had no owner yet
    assert after.stopped_s == pytest.approx(2)


def test_callbacks_count_in_the_step_in_which_they_were_entered(ownership):
    ownership.assigned("a", 9, 0)
    ownership.revoked("a", 10, 0)
    ownership.assigned("a", 20, 0)
    assert ownership.cost("a", partitions=1).callbacks == 1


def test_a_death_is_no_callback(ownership):
    ownership.assigned("a", 1, 0)
    ownership.killed("a", 11)
    assert ownership.cost("a", partitions=1).callbacks == 0


def test_what_several_steps_cost_together():
    one = StepCost(bystanders=2, stopped=1, stopped_s=1.5, callbacks=2, unread_s=4, longest_s=3, read_again=5)
    other = StepCost(bystanders=3, stopped=0, stopped_s=0, callbacks=1, unread_s=2, longest_s=1, read_again=0)
    assert total([one, other]) == StepCost(
        bystanders=5, stopped=1, stopped_s=1.5, callbacks=3, unread_s=6, longest_s=3, read_again=5
    )


def test_reading_stops_when_the_revoke_callback_begins_not_when_it_ends(ownership):
    ownership.assigned("a", 1, 0)
    ownership.revoked("a", 11, 0, took_s=2)
    ownership.assigned("a", 14, 0)
    assert ownership.cost("a", partitions=1).stopped_s == pytest.approx(3)


def test_a_handover_is_no_overlap(ownership):
    ownership.assigned("a", 1, 0)
    ownership.revoked("a", 11, 0, took_s=1)
    ownership.assigned("b", 12, 0)
    assert ownership.overlaps() == []


def test_a_partition_assigned_before_the_revoke_callback_returned_was_held_twice(ownership):
    ownership.assigned("a", 1, 0)
    ownership.revoked("a", 11, 0, took_s=1)
    ownership.assigned("b", 11.5, 0)
    (overlap,) = ownership.overlaps()
    assert (overlap.partition, overlap.consumers) == (0, ("a", "b"))
    assert overlap.seconds == pytest.approx(0.5)


def test_two_consumers_that_never_give_up_overlap_until_now(ownership):
    ownership.assigned("a", 1, 0)
    ownership.assigned("b", 15, 0)
    (overlap,) = ownership.overlaps()
    assert overlap.seconds == pytest.approx(5)


def test_a_partition_assigned_before_the_old_owner_was_dead_was_held_twice(ownership):
    ownership.assigned("a", 1, 0)
    ownership.assigned("b", 10, 0)
    ownership.killed("a", 11)
    (overlap,) = ownership.overlaps()
    assert overlap.seconds == pytest.approx(1)
