"""Which records a fetch acquires."""

import pytest

from coordinator.errors import RequestRefused
from coordinator.share_partitions import AcquireMode, FetchedBatch, InFlightRecords, ShareSettings
from protocol_codecs.records import ShareStateBatch
from tests.coordinator.share_partitions.leader import Leader


def test_a_fetch_acquires_what_was_read():
    leader = Leader(10)

    assert leader.fetch("m") == [(0, 9, 1)]
    assert leader.offsets == (0, 9, 10)


def test_nothing_is_acquired_twice():
    leader = Leader(10)
    leader.fetch("m")

    assert leader.fetch("other") == []


def test_nothing_read_is_nothing_acquired():
    assert Leader().fetch("m") == []


def test_no_records_are_wanted():
    assert Leader(10).fetch("m", 0) == []


def test_records_before_the_start_offset_are_not_acquired():
    leader = Leader(10, start=4)

    assert leader.fetch("m") == [(4, 9, 1)]
    assert leader.records.start_offset == 4


def test_a_batch_that_ends_before_the_start_offset_is_not_acquired():
    records = InFlightRecords(ShareSettings(), 10)
    kind = {"max_records": 5, "batch_size": 5, "now_ms": 0}

    assert records.acquire("m", [FetchedBatch(0, 9)], fetch_offset=10, **kind) == ()


def test_the_start_offset_moves_to_the_first_batch_that_is_there():
    leader = Leader()
    leader.log = [FetchedBatch(7, 9)]

    assert leader.fetch("m") == [(7, 9, 1)]
    assert leader.records.start_offset == 7


def test_new_records_are_acquired_by_whole_batches():
    leader = Leader(10, 10, 10)

    assert leader.fetch("m", 11) == [(0, 19, 1)]
    assert leader.fetch("m", 1) == [(20, 29, 1)]


def test_a_large_fetch_is_split_where_batches_of_the_log_begin():
    leader = Leader(4, 4, 4, 4)

    assert leader.fetch("m", batch_size=6) == [(0, 7, 1), (8, 15, 1)]


def test_a_part_is_as_large_as_the_batch_size():
    assert Leader(3, 3, 3).fetch("m", batch_size=3) == [(0, 2, 1), (3, 5, 1), (6, 8, 1)]


def test_a_fetch_is_not_split_inside_a_batch_of_the_log():
    assert Leader(10).fetch("m", batch_size=3) == [(0, 9, 1)]


def test_a_fetch_of_exactly_the_batch_size_is_not_split():
    assert Leader(3, 3).fetch("m", batch_size=6) == [(0, 5, 1)]


@pytest.mark.parametrize(("wanted", "last"), [(3, 2), (9, 8), (10, 9), (11, 9)])
def test_record_limit_acquires_exactly_what_is_wanted(wanted: int, last: int):
    leader = Leader(10)

    assert leader.exactly("m", wanted) == [(0, last, 1)]


def test_record_limit_leaves_the_rest_of_the_batch_undelivered():
    leader = Leader(10)
    leader.exactly("m", 3)

    assert leader.offsets == (0, 9, 3)
    assert leader.exactly("other", 3) == [(3, 5, 1)]
    assert leader.fetch("third") == [(6, 9, 1)]


def test_record_limit_is_not_split_by_the_batch_size():
    leader = Leader(4, 4, 4)

    assert leader.fetch("m", 12, batch_size=4, mode=AcquireMode.RECORD_LIMIT) == [(0, 11, 1)]


def test_record_limit_splits_what_is_acquired_again():
    leader = Leader(10)
    leader.fetch("m")
    leader.leave("m")

    assert leader.exactly("m", 4) == [(0, 3, 2)]
    assert leader.exactly("m", 4) == [(4, 7, 2)]


def test_record_limit_counts_over_several_batches_in_flight():
    leader = Leader(3, 3, 3)
    leader.fetch("m", 1, batches=1)
    leader.fetch("m", 1, batches=1)
    leader.leave("m")

    assert leader.exactly("m", 8) == [(0, 2, 2), (3, 5, 2), (6, 7, 1)]


def test_what_was_released_comes_before_what_is_new():
    leader = Leader(5)
    leader.fetch("m")
    leader.release("m", 0, 4)
    leader.produce(5)

    assert leader.fetch("m") == [(0, 4, 2), (5, 9, 1)]


def test_records_in_flight_are_acquired_by_whole_batches():
    leader = Leader(5, 5)
    leader.fetch("m", 1)
    leader.fetch("m", 1)
    leader.leave("m")

    assert leader.fetch("m", 6) == [(0, 4, 2), (5, 9, 2)]
    leader.leave("m")
    assert leader.fetch("m", 5) == [(0, 4, 3)]


def test_records_of_split_batches_are_joined_by_their_delivery_counts():
    leader = Leader(6)
    leader.fetch("m")
    leader.release("m", 2, 3)
    leader.fetch("m")
    leader.leave("m")

    assert leader.fetch("m") == [(0, 1, 2), (2, 3, 3), (4, 5, 2)]


def test_a_batch_read_in_part_is_split():
    """Only single records of it are wanted: the bytes of a fetch can end inside what was acquired at once."""
    leader = Leader(5, 5)
    leader.fetch("m")
    leader.leave("m")

    assert leader.fetch("m", batches=1) == [(0, 4, 2)]
    assert leader.offsets == (0, 9, 5)


def test_a_batch_that_is_acquired_is_not_split_by_a_fetch():
    leader = Leader(5, 5, 5)
    leader.fetch("m", 1)
    leader.fetch("other", 10)
    leader.leave("m")

    assert leader.fetch("m", batches=2) == [(0, 4, 2)]
    leader.accept("other", 5, 14)
    assert len(leader.writes[-1].batches) == 1


class TestInFlightLimit:
    settings = ShareSettings(max_record_locks=10)

    def test_no_batch_begins_beyond_it(self):
        leader = Leader(6, 6, 6, settings=self.settings)

        assert leader.fetch("m") == [(0, 11, 1)]
        assert not leader.records.can_acquire()

    def test_one_record_below_it_a_batch_is_acquired(self):
        leader = Leader(9, 6, 6, settings=self.settings)
        leader.fetch("m", 1)

        assert leader.records.can_acquire()
        assert leader.fetch("m") == [(9, 14, 1)]

    def test_record_limit_keeps_it(self):
        leader = Leader(6, 6, settings=self.settings)

        assert leader.exactly("m", 20) == [(0, 9, 1)]

    def test_at_it_released_records_are_acquired_and_nothing_new(self):
        leader = Leader(10, 5, settings=self.settings)
        leader.fetch("m", 10)
        leader.release("m", 4, 5)

        assert leader.records.can_acquire()
        assert leader.fetch("m") == [(4, 5, 2)]
        assert not leader.records.can_acquire()

    def test_at_it_no_new_records_are_acquired_although_they_were_read(self):
        leader = Leader(10, 5, settings=self.settings)
        leader.fetch("m", 10)
        offset = leader.records.next_fetch_offset()

        assert (
            leader.records.acquire(
                "m", leader.read(offset), fetch_offset=offset, max_records=5, batch_size=5, now_ms=0
            )
            == ()
        )

    def test_accepted_records_make_room(self):
        leader = Leader(10, 5, settings=self.settings)
        leader.fetch("m", 10)
        leader.accept("m", 0, 9)

        assert leader.fetch("m") == [(10, 14, 1)]


class TestThrottling:
    """From half of the delivery limit on, records come in smaller numbers: half, a quarter, and at last one alone."""

    def test_below_half_of_the_limit_the_batch_comes_whole(self):
        leader = Leader(8)
        leader.deliver_times(2)

        assert leader.fetch("m") == [(0, 7, 3)]

    def test_from_half_of_the_limit_on_half_of_the_batch_comes(self):
        leader = Leader(8)
        leader.deliver_times(3)

        assert leader.fetch("m") == [(0, 3, 4)]
        assert leader.fetch("m") == [(4, 7, 4)]

    def test_on_the_last_delivery_each_record_comes_alone(self):
        leader = Leader(2)
        leader.deliver_times(4)

        assert [leader.fetch("m") for _ in range(3)] == [[(0, 0, 5)], [(1, 1, 5)], []]

    def test_a_limit_of_ten_halves_again_and_again(self):
        leader = Leader(500, settings=ShareSettings(delivery_count_limit=10))
        sizes = []
        for delivery in range(10):
            first, last, count = leader.fetch("m", 1_000)[0]
            assert (first, count) == (0, delivery + 1)
            sizes.append(last + 1)
            leader.leave("m")

        assert sizes == [500, 500, 500, 500, 500, 250, 125, 62, 31, 1]

    def test_the_records_before_come_alone_first(self):
        leader = Leader(2, 8)
        leader.fetch("m", 1, batches=1)
        for _ in range(3):
            leader.fetch("m", batches=2)
            leader.acknowledge("m", (2, 9, [2]))
        leader.leave("m")

        assert leader.fetch("m") == [(0, 1, 2)]
        assert leader.fetch("m") == [(2, 5, 4)]

    def test_others_do_not_come_after_a_record_on_its_last_delivery(self):
        leader = Leader(8)
        leader.deliver_times(2)
        leader.fetch("m")
        leader.release("m", 0, 0)
        leader.fetch("m")
        leader.release("m", 0, 0)
        leader.leave("m")

        assert leader.fetch("m") == [(0, 0, 5)]

    def test_others_come_before_a_record_on_its_last_delivery(self):
        leader = Leader(8)
        leader.deliver_times(2)
        leader.fetch("m")
        leader.release("m", 2, 2)
        leader.fetch("m")
        leader.leave("m")

        assert leader.fetch("m") == [(0, 1, 4)]
        assert leader.fetch("m") == [(2, 2, 5)]

    def test_records_beyond_what_was_read_do_not_count(self):
        leader = Leader(2, 4, 4)
        leader.fetch("m", batches=1)
        leader.fetch("m")
        for _ in range(2):
            leader.release("m", 6, 9)
            leader.fetch("m")
        leader.leave("m")

        assert leader.fetch("m", batches=2) == [(0, 1, 2), (2, 5, 2)]

    def test_nothing_new_comes_with_throttled_records(self):
        leader = Leader(4)
        leader.deliver_times(3)
        leader.produce(4)

        assert leader.fetch("m") == [(0, 1, 4)]
        assert leader.fetch("m") == [(2, 3, 4)]
        assert leader.fetch("m") == [(4, 7, 1)]

    def test_at_least_one_record_comes(self):
        leader = Leader(1)
        leader.deliver_times(3)

        assert leader.fetch("m") == [(0, 0, 4)]

    def test_with_a_limit_of_two_nothing_comes_alone(self):
        leader = Leader(4, settings=ShareSettings(delivery_count_limit=2))
        leader.deliver_times(1)

        assert leader.fetch("m") == [(0, 3, 2)]

    def test_with_a_limit_of_three_records_come_alone_the_third_time(self):
        leader = Leader(4, settings=ShareSettings(delivery_count_limit=3))
        leader.deliver_times(2)

        assert leader.fetch("m") == [(0, 0, 3)]

    @pytest.mark.parametrize(
        ("limit", "from_count"), [(2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (9, 5), (10, 5)]
    )
    def test_it_begins_at_half_of_the_limit_rounded_up(self, limit: int, from_count: int):
        assert ShareSettings(delivery_count_limit=limit).throttle_limit == from_count


class TestCompaction:
    """Records that were in flight and are not in the log any more."""

    def test_available_records_before_what_was_read_are_archived(self):
        leader = Leader(5, 5)
        leader.fetch("m", 1)
        leader.fetch("other", 1)
        leader.leave("m")
        del leader.log[0]
        leader.produce(5)

        assert leader.fetch("m") == [(10, 14, 1)]
        leader.accept("other", 5, 9)
        assert leader.records.start_offset == 10

    def test_only_what_lies_before_is_archived(self):
        leader = Leader(10)
        leader.fetch("m")
        leader.leave("m")
        leader.log = [FetchedBatch(6, 9)]

        assert leader.fetch("m") == [(6, 9, 2)]
        leader.accept("m", 6, 9)
        assert leader.offsets == (10, 10, 10)

    def test_records_that_are_acquired_are_left(self):
        leader = Leader(5, 5)
        leader.fetch("m", 1)
        leader.log = [FetchedBatch(7, 9)]

        assert leader.fetch("other") == [(7, 9, 1)]
        leader.accept("m", 0, 4)
        assert leader.records.start_offset == 7

    def test_offsets_between_batches_are_skipped(self):
        leader = Leader(5)
        leader.fetch("m")
        leader.log.append(FetchedBatch(8, 9))

        assert leader.fetch("m") == [(8, 9, 1)]
        leader.accept("m", 0, 4)
        assert leader.offsets == (8, 9, 10)

    def test_the_owner_of_the_batch_before_such_offsets_is_asked_too(self):
        """As in Kafka, where a range that begins between two batches counts as a part of the first."""
        leader = Leader(5)
        leader.fetch("other")
        leader.log.append(FetchedBatch(8, 9))
        leader.fetch("m")

        with pytest.raises(RequestRefused, match="INVALID_RECORD_STATE"):
            leader.accept("m", 7, 9)
        leader.accept("m", 8, 9)


class TestGapsAfterARestart:
    """Offsets that the persisted state lacks were acquired and not acknowledged: they are delivered again."""

    @staticmethod
    def restarted(
        *persisted: tuple[int, int, int, int], start: int = 0, sizes: tuple[int, ...] = (10, 10)
    ) -> Leader:
        batches = [
            ShareStateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in persisted
        ]
        return Leader(*sizes, start=start, persisted=batches)

    def test_a_gap_at_the_beginning(self):
        leader = self.restarted((5, 9, 2, 1))

        assert leader.offsets == (0, 9, 0)
        assert leader.fetch("m") == [(0, 4, 1), (10, 19, 1)]

    def test_a_gap_in_the_middle_holds_the_start_offset(self):
        leader = self.restarted((0, 3, 2, 1), (8, 9, 4, 2))

        assert leader.offsets == (4, 9, 4)
        assert leader.records.delivery_complete_count == 2
        assert leader.fetch("m", 1) == [(4, 7, 1)]
        leader.accept("m", 4, 7)
        assert leader.offsets == (8, 9, 10), (
            "Kafka passes the last batch only when something after it is acquired"
        )
        leader.fetch("m")
        leader.accept("m", 10, 19)
        assert leader.offsets == (20, 20, 20)

    def test_a_gap_is_acquired_with_what_is_available_around_it(self):
        leader = self.restarted((0, 3, 0, 1), (8, 9, 0, 2))

        assert leader.fetch("m", 10) == [(0, 3, 2), (4, 7, 1), (8, 9, 3)]

    def test_record_limit_acquires_a_part_of_a_gap(self):
        leader = self.restarted((8, 9, 2, 1))

        assert leader.exactly("m", 3) == [(0, 2, 1)]
        assert leader.offsets == (0, 9, 3)

    def test_offsets_that_the_log_lacks_are_no_gap_any_more_when_later_ones_are_acquired(self):
        leader = self.restarted((0, 3, 0, 1), (8, 9, 0, 1))
        leader.log = [FetchedBatch(0, 3), FetchedBatch(8, 9), FetchedBatch(10, 19)]

        leader.fetch("m", batches=1)
        assert leader.records.next_fetch_offset() == 4
        assert leader.fetch("m") == [(8, 9, 2), (10, 19, 1)]
        leader.accept("m", 0, 3)
        assert leader.records.start_offset == 8

    def test_without_gaps_what_is_done_is_forgotten(self):
        leader = self.restarted((0, 4, 2, 1), (5, 9, 4, 5))

        assert leader.offsets == (10, 10, 10)

    def test_archiving_is_read_as_archived(self):
        assert self.restarted((0, 9, 3, 1)).offsets == (10, 10, 10)
