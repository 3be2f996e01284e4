"""When the reader of the member log is replaced: in seconds that the test says."""

import math

import pytest

from proxy.member_log.reader_watch import MOST_PATIENCE_S, PATIENCE_S, ReaderWatch
from translation.member_log.outputs import Health

PARTITIONS = 2


@pytest.fixture
def ready() -> ReaderWatch:
    """The watch of a log that has become ready."""
    watch = ReaderWatch(PARTITIONS, 0.0)
    for partition in range(PARTITIONS):
        watch.changed(partition, Health.READY, 1.0)
    return watch


def test_a_log_that_is_ready_needs_no_other_reader(ready):
    assert ready.next_deadline() == math.inf


def test_a_partition_that_is_away_may_be_silent_for_a_while(ready):
    ready.changed(1, Health.AWAY, 50.0)
    assert ready.next_deadline() == 50.0 + PATIENCE_S


def test_what_is_read_of_a_partition_that_is_away_counts_and_of_others_does_not(ready):
    ready.changed(1, Health.AWAY, 50.0)
    ready.heard(0, 60.0)
    assert ready.next_deadline() == 50.0 + PATIENCE_S
    ready.heard(1, 61.0)
    assert ready.next_deadline() == 61.0 + PATIENCE_S


def test_while_the_log_is_replayed_one_partition_may_wait_for_the_others():
    watch = ReaderWatch(PARTITIONS, 0.0)
    assert watch.next_deadline() == PATIENCE_S
    watch.heard(0, 10.0)
    assert watch.next_deadline() == 10.0 + PATIENCE_S


def test_a_partition_that_is_lost_is_replayed(ready):
    ready.changed(1, Health.REPLAYING, 50.0)
    ready.heard(0, 60.0)
    assert ready.next_deadline() == 60.0 + PATIENCE_S


def test_each_reader_gets_more_time_until_the_log_is_ready(ready):
    ready.changed(0, Health.AWAY, 50.0)
    ready.replaced(65.0)
    assert ready.next_deadline() == 65.0 + 2 * PATIENCE_S
    for now in (100.0, 200.0, 300.0):
        ready.replaced(now)
    assert ready.next_deadline() == 300.0 + MOST_PATIENCE_S
    ready.heard(0, 310.0)
    assert ready.next_deadline() == 310.0 + MOST_PATIENCE_S
    ready.changed(0, Health.READY, 320.0)
    ready.changed(0, Health.AWAY, 400.0)
    assert ready.next_deadline() == 400.0 + PATIENCE_S
