"""The measures of benchmarks/rebalance.py, on histories made up. Needs no Kafka."""

import pytest

from benchmarks.lib.rebalance_measures import NS, Change, Cost, cost, owners
from benchmarks.rebalance import CLASSIC, EPOCHGATE, NATIVE, Row, table, verdict


def gained(consumer, at_s, *partitions):
    return Change(consumer, int(at_s * NS), gained=True, partitions=frozenset(partitions))


def lost(consumer, at_s, *partitions):
    return Change(consumer, int(at_s * NS), gained=False, partitions=frozenset(partitions))


BEFORE = [gained("a", 1, 0, 1), gained("b", 1, 2, 3)]


def measured(*changes, bystanders=("a", "b"), partitions=range(4)):
    return cost(
        [*BEFORE, *changes], began=10 * NS, ended=20 * NS, bystanders=bystanders, partitions=partitions
    )


def test_nothing_happened():
    found = measured()
    assert (found.stopped, found.interrupted, found.partition_s, found.complete_s) == (0, 0, 0, 0)


def test_an_eager_member_that_stops_everything_costs_all_its_partitions():
    found = measured(lost("a", 12, 0, 1), gained("a", 12.5, 0, 1))
    assert (found.stopped, found.stopped_s) == (1, pytest.approx(0.5))
    assert (found.interrupted, found.partition_s) == (2, pytest.approx(1.0))
    assert found.complete_s == pytest.approx(2.5)


def test_a_partition_that_moves_stops_nobody_who_keeps_another():
    found = measured(lost("a", 12, 0), gained("b", 15, 0))
    assert found.stopped == 0
    assert (found.interrupted, found.partition_s, found.longest_s) == (1, pytest.approx(3), pytest.approx(3))


def test_what_is_still_without_an_owner_at_the_end_counts_until_then():
    assert measured(lost("a", 12, 0)).partition_s == pytest.approx(8)


def test_a_partition_that_is_new_is_without_an_owner_from_the_beginning():
    found = measured(gained("a", 13, 4), partitions=range(5))
    assert found.partition_s == pytest.approx(3)


def test_two_that_overlap_are_one_owner():
    found = measured(gained("b", 11, 0), lost("a", 12, 0))
    assert found.partition_s == 0


def test_owners_at_a_moment():
    changes = [*BEFORE, lost("a", 12, 0), gained("b", 15, 0)]
    assert owners(changes, 13 * NS) == {"a": {1}, "b": {2, 3}}
    assert owners(changes, 16 * NS) == {"a": {1}, "b": {0, 2, 3}}


def row(mode, partition_s, complete_s):
    return Row(mode, "join", 1, Cost(20, 1, 1.0, 1, partition_s, 1.0, complete_s))


def test_a_missed_target_is_said_to_be_missed():
    rows = [row(CLASSIC, 100.0, 2.0), row(EPOCHGATE, 11.0, 5.0), row(NATIVE, 20.0, 4.0)]
    assert [line.rpartition(": ")[2] for line in verdict(rows)] == ["MISSED", "MISSED"]
    rows[1] = row(EPOCHGATE, 10.0, 4.0)
    assert [line.rpartition(": ")[2] for line in verdict(rows)] == ["met", "met"]
    assert table(rows).count("\n") == 4
