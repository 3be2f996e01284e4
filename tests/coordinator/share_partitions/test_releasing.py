"""Records that come back: their locks end, or the session of their member."""

import pytest

from coordinator.share_partitions import ShareSettings
from tests.coordinator.share_partitions.leader import LOCK_MS, Leader

AVAILABLE, ARCHIVED = 0, 4


@pytest.fixture
def leader() -> Leader:
    """Ten records, acquired by m."""
    leader = Leader(10)
    leader.fetch("m")
    return leader


class TestLocks:
    def test_a_lock_holds_until_its_deadline(self, leader: Leader):
        assert leader.records.next_deadline_ms() == LOCK_MS

        leader.wait(LOCK_MS - 1)

        assert leader.fetch("other") == []

    def test_at_its_deadline_the_records_are_available(self, leader: Leader):
        leader.wait(LOCK_MS)

        assert leader.persisted() == [(0, 9, AVAILABLE, 1)]
        assert leader.records.next_deadline_ms() is None
        assert leader.fetch("other") == [(0, 9, 2)]

    def test_only_locks_that_have_ended_are_released(self, leader: Leader):
        leader.produce(5)
        leader.wait(10)
        leader.fetch("m")
        leader.wait(LOCK_MS - 10)

        assert leader.persisted() == [(0, 9, AVAILABLE, 1)]
        assert leader.records.next_deadline_ms() == LOCK_MS + 10

    def test_the_rest_of_a_batch_keeps_its_deadline(self, leader: Leader):
        leader.wait(10)
        leader.accept("m", 0, 4)
        assert leader.records.next_deadline_ms() == LOCK_MS

        leader.wait(LOCK_MS - 10)
        assert leader.fetch("other") == [(5, 9, 2)]

    def test_on_the_last_delivery_the_record_is_archived(self):
        leader = Leader(1)
        leader.deliver_times(4)
        leader.fetch("m")
        leader.wait(LOCK_MS)

        assert leader.persisted() == [(0, 0, ARCHIVED, 5)]
        assert leader.writes[-1].delivery_complete_count == 1
        assert leader.offsets == (1, 1, 1)

    def test_it_is_released_though_the_write_fails(self, leader: Leader):
        leader.holds_writes = True
        leader.wait(LOCK_MS)
        assert leader.fetch("other") == [(0, 9, 2)]
        leader.fail_to_write()

        assert leader.fetch("third") == []

    def test_what_is_archived_moves_the_start_offset_though_the_write_fails(self):
        leader = Leader(1)
        leader.deliver_times(4)
        leader.fetch("m")
        leader.holds_writes = True
        leader.wait(LOCK_MS)
        leader.fail_to_write()

        assert leader.records.start_offset == 1

    def test_the_settings_of_the_time_of_acquiring_count(self, leader: Leader):
        leader.records.settings = ShareSettings(record_lock_duration_ms=5)
        leader.produce(5)
        leader.fetch("m")
        leader.wait(5)

        assert leader.persisted() == [(10, 14, AVAILABLE, 1)]

    def test_records_acquired_by_the_record_limit_have_locks(self):
        leader = Leader(10)
        leader.exactly("m", 3)
        leader.wait(LOCK_MS)

        assert leader.persisted() == [(offset, offset, AVAILABLE, 1) for offset in range(3)]
        assert leader.fetch("other") == [(0, 2, 2), (3, 9, 1)]


class TestSessionsThatEnd:
    def test_what_the_member_acquired_is_available(self, leader: Leader):
        leader.leave("m")

        assert leader.persisted() == [(0, 9, AVAILABLE, 1)]
        assert leader.records.next_deadline_ms() is None
        assert leader.fetch("other") == [(0, 9, 2)]

    def test_what_others_acquired_is_not(self, leader: Leader):
        leader.release("m", 2, 3)
        leader.fetch("other")
        leader.leave("m")

        assert leader.fetch("third") == [(0, 1, 2), (4, 9, 2)]

    def test_a_member_that_has_nothing_changes_nothing(self, leader: Leader):
        leader.leave("nobody")

        assert leader.writes == []

    def test_on_the_last_delivery_the_record_is_archived(self):
        leader = Leader(1)
        leader.deliver_times(5)

        assert leader.persisted() == [(0, 0, ARCHIVED, 5)]
        assert leader.offsets == (1, 1, 1)

    def test_what_is_in_transition_is_left_to_it(self, leader: Leader):
        leader.holds_writes = True
        leader.accept("m", 0, 4)
        leader.leave("m")
        leader.write()
        leader.write()

        assert leader.offsets == (5, 9, 5)

    def test_a_failed_write_leaves_the_records_acquired(self, leader: Leader):
        leader.holds_writes = True
        leader.leave("m")
        leader.fail_to_write()

        assert leader.fetch("other") == []
        leader.wait(LOCK_MS)
        assert leader.fetch("other") == [(0, 9, 2)]


def test_batches_that_are_done_with_are_forgotten():
    leader = Leader(5, 5, 5)
    for _ in range(3):
        leader.fetch("m", 1)
    leader.accept("m", 0, 4)
    assert len(leader.records._window.batches) == 2

    leader.accept("m", 5, 11)
    assert len(leader.records._window.batches) == 1


class TestLogStart:
    def test_nothing_in_flight(self):
        leader = Leader(10, 10)
        leader.records.move_log_start(10)

        assert leader.offsets == (10, 10, 10)
        assert leader.fetch("m") == [(10, 19, 1)]

    def test_it_does_not_move_back(self, leader: Leader):
        leader.accept("m", 0, 4)
        leader.records.move_log_start(5)
        leader.records.move_log_start(3)

        assert leader.records.start_offset == 5

    def test_what_is_available_below_is_archived(self, leader: Leader):
        leader.leave("m")
        leader.records.move_log_start(4)

        assert leader.records.start_offset == 4
        assert leader.fetch("m") == [(4, 9, 2)]
        assert len(leader.writes) == 1, "nothing is persisted"

    def test_what_is_acquired_below_is_archived_when_its_lock_ends(self, leader: Leader):
        leader.records.move_log_start(4)
        leader.wait(LOCK_MS)

        assert [state for _, _, state, _ in leader.persisted()] == [ARCHIVED] * 4 + [AVAILABLE] * 6
        assert leader.writes[-1].start_offset == 4
        assert leader.writes[-1].delivery_complete_count == 0

    def test_what_is_acquired_below_is_archived_when_the_session_ends(self, leader: Leader):
        leader.records.move_log_start(4)
        leader.leave("m")

        assert [state for _, _, state, _ in leader.persisted()] == [ARCHIVED] * 4 + [AVAILABLE] * 6
        assert leader.offsets == (4, 9, 4)

    def test_acknowledgements_below_are_skipped(self, leader: Leader):
        leader.records.move_log_start(4)
        leader.accept("m", 0, 3)
        assert leader.writes == []

        leader.accept("m", 0, 9)
        assert leader.records.delivery_complete_count == 6

    def test_what_it_leaves_behind_holds_the_memory_until_it_is_released(self, leader: Leader):
        leader.produce(10)
        leader.records.move_log_start(10)
        assert leader.offsets == (10, 10, 10)
        assert leader.fetch("m") == [(10, 19, 1)]

        leader.accept("m", 10, 19)
        assert leader.records.start_offset == 10
        leader.wait(LOCK_MS)
        assert leader.offsets == (20, 20, 20)

    def test_records_done_with_below_are_not_counted_any_more(self, leader: Leader):
        leader.accept("m", 3, 6)
        assert leader.records.delivery_complete_count == 4

        leader.records.move_log_start(5)

        assert leader.records.delivery_complete_count == 2

    def test_a_batch_across_it_is_split(self):
        leader = Leader(10)
        leader.fetch("m")
        leader.leave("m")
        leader.records.move_log_start(7)
        leader.fetch("m")
        leader.accept("m", 7, 9)

        assert leader.offsets == (10, 10, 10)
