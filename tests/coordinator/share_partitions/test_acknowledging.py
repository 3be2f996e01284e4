"""What acknowledgements do to records, and which are refused."""

from collections.abc import Callable

import pytest

from coordinator.errors import RequestRefused
from coordinator.share_partitions import (
    AcknowledgementBatch,
    AcknowledgeType,
    FetchedBatch,
    ShareSettings,
    check_acknowledgements,
)
from protocol_codecs import ErrorCode
from tests.coordinator.share_partitions.leader import LOCK_MS, Leader

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


@pytest.fixture
def leader() -> Leader:
    """Ten records, acquired by m."""
    leader = Leader(10)
    leader.fetch("m")
    return leader


def refused(code: ErrorCode, act: Callable[[], object]) -> None:
    with pytest.raises(RequestRefused) as raised:
        act()
    assert raised.value.code is code


class TestTypes:
    @pytest.mark.parametrize(
        ("kind", "state", "is_done"),
        [
            (GAP, ARCHIVED, True),
            (ACCEPT, ACKNOWLEDGED, True),
            (RELEASE, AVAILABLE, False),
            (REJECT, ARCHIVED, True),
        ],
    )
    def test_of_a_whole_batch(self, leader: Leader, kind: AcknowledgeType, state: int, is_done: bool):
        leader.acknowledge("m", (0, 9, [kind]))

        assert leader.persisted() == [(0, 9, state, 1)]
        assert leader.writes[-1].delivery_complete_count == (10 if is_done else 0)
        assert leader.offsets == ((10, 10, 10) if is_done else (0, 9, 0))

    @pytest.mark.parametrize(
        ("kind", "state"), [(GAP, ARCHIVED), (ACCEPT, ACKNOWLEDGED), (RELEASE, AVAILABLE), (REJECT, ARCHIVED)]
    )
    def test_of_a_part(self, leader: Leader, kind: AcknowledgeType, state: int):
        leader.acknowledge("m", (3, 4, [kind]))

        assert leader.persisted() == [(3, 3, state, 1), (4, 4, state, 1)]

    def test_of_each_record(self, leader: Leader):
        leader.acknowledge("m", (0, 9, [ACCEPT, REJECT, GAP, RELEASE] + [ACCEPT] * 6))

        assert [state for _, _, state, _ in leader.persisted()] == [2, 4, 4, 0] + [2] * 6
        assert leader.offsets == (3, 9, 3)
        assert leader.records.delivery_complete_count == 6

    def test_a_released_record_keeps_its_delivery_count(self, leader: Leader):
        leader.release("m", 0, 9)

        assert leader.fetch("other") == [(0, 9, 2)]

    def test_at_the_delivery_limit_a_released_record_is_archived(self):
        leader = Leader(1)
        leader.deliver_times(4)
        leader.fetch("m")
        leader.release("m", 0, 0)

        assert leader.persisted() == [(0, 0, ARCHIVED, 5)]
        assert leader.offsets == (1, 1, 1)

    def test_below_a_higher_limit_it_is_not(self):
        leader = Leader(1)
        leader.deliver_times(4)
        leader.fetch("m")
        leader.records.settings = ShareSettings(delivery_count_limit=6)
        leader.release("m", 0, 0)

        assert leader.persisted() == [(0, 0, AVAILABLE, 5)]

    def test_an_unknown_type_is_refused(self, leader: Leader):
        refused(ErrorCode.INVALID_REQUEST, lambda: leader.acknowledge("m", (0, 9, [5])))


class TestRenewing:
    def test_locks_begin_anew(self, leader: Leader):
        leader.wait(LOCK_MS - 1)
        leader.renew("m", 0, 9)
        assert leader.writes == []

        leader.wait(LOCK_MS - 1)
        leader.accept("m", 0, 9)

        assert leader.records.start_offset == 10

    def test_of_a_part(self, leader: Leader):
        leader.wait(1)
        leader.renew("m", 4, 5)
        leader.wait(LOCK_MS - 1)

        assert leader.fetch("other") == [(0, 3, 2), (6, 9, 2)]
        assert leader.records.next_deadline_ms() == LOCK_MS + 1

    def test_beside_other_types(self, leader: Leader):
        leader.acknowledge("m", (0, 9, [RENEW, ACCEPT] * 5))

        assert [first for first, _, _, _ in leader.persisted()] == [1, 3, 5, 7, 9]

    def test_what_is_not_enabled_is_refused(self):
        leader = Leader(10, settings=ShareSettings(renew_enabled=False))
        leader.fetch("m")

        refused(ErrorCode.INVALID_RECORD_STATE, lambda: leader.renew("m", 0, 9))
        refused(ErrorCode.INVALID_RECORD_STATE, lambda: leader.renew("m", 0, 3))

    def test_renewed_locks_stay_renewed_when_a_later_batch_is_refused(self, leader: Leader):
        leader.wait(5)

        refused(
            ErrorCode.INVALID_RECORD_STATE,
            lambda: leader.acknowledge("m", (0, 4, [RENEW]), (5, 9, [ACCEPT]), (9, 9, [ACCEPT])),
        )

        leader.wait(LOCK_MS - 5)
        assert leader.fetch("other") == [(5, 9, 2)]


class TestRefusals:
    def test_nothing_is_acquired(self):
        refused(ErrorCode.INVALID_RECORD_STATE, lambda: Leader(10).accept("m", 0, 9))

    def test_another_member_has_it(self, leader: Leader):
        refused(ErrorCode.INVALID_RECORD_STATE, lambda: leader.accept("other", 0, 9))
        refused(ErrorCode.INVALID_RECORD_STATE, lambda: leader.accept("other", 2, 3))

    def test_another_member_has_one_of_the_records(self, leader: Leader):
        leader.release("m", 5, 5)
        leader.fetch("other")

        refused(ErrorCode.INVALID_RECORD_STATE, lambda: leader.accept("m", 0, 9))

    def test_it_is_acknowledged_already(self, leader: Leader):
        leader.produce(5)
        leader.fetch("m")
        leader.accept("m", 10, 14)

        refused(ErrorCode.INVALID_RECORD_STATE, lambda: leader.accept("m", 10, 14))
        refused(ErrorCode.INVALID_RECORD_STATE, lambda: leader.accept("m", 11, 12))

    def test_it_is_available(self, leader: Leader):
        leader.release("m", 0, 9)

        refused(ErrorCode.INVALID_RECORD_STATE, lambda: leader.accept("m", 0, 9))
        refused(ErrorCode.INVALID_RECORD_STATE, lambda: leader.accept("m", 0, 1))

    def test_it_was_never_acquired(self, leader: Leader):
        refused(ErrorCode.INVALID_REQUEST, lambda: leader.accept("m", 0, 10))
        refused(ErrorCode.INVALID_REQUEST, lambda: leader.accept("m", 10, 10))

    def test_it_was_not_delivered(self):
        leader = Leader(10)
        leader.exactly("m", 5)

        refused(ErrorCode.INVALID_RECORD_STATE, lambda: leader.accept("m", 0, 9))
        leader.accept("m", 0, 4)

    def test_below_the_start_offset_everything_is_accepted(self, leader: Leader):
        leader.accept("m", 0, 4)
        leader.accept("m", 0, 4)
        leader.accept("nobody", 2, 3)

        assert len(leader.writes) == 1

    def test_across_the_start_offset_only_the_rest_counts(self, leader: Leader):
        leader.accept("m", 0, 4)
        leader.accept("m", 0, 9)

        assert leader.persisted() == [(offset, offset, ACKNOWLEDGED, 1) for offset in range(5, 10)]

    def test_a_refused_request_changes_nothing(self, leader: Leader):
        refused(
            ErrorCode.INVALID_RECORD_STATE,
            lambda: leader.acknowledge("m", (0, 3, [ACCEPT]), (4, 6, [REJECT]), (6, 7, [ACCEPT])),
        )

        assert leader.offsets == (0, 9, 10)
        assert leader.records.delivery_complete_count == 0
        assert leader.writes == []
        leader.accept("m", 0, 9)


class TestTransitions:
    """Between an acknowledgement and the outcome of its write."""

    @pytest.fixture(autouse=True)
    def held(self, leader: Leader) -> None:
        leader.holds_writes = True

    def test_the_start_offset_stays(self, leader: Leader):
        leader.accept("m", 0, 9)
        assert leader.offsets == (0, 9, 10)

        leader.write()
        assert leader.offsets == (10, 10, 10)

    def test_nothing_else_can_be_acknowledged(self, leader: Leader):
        leader.release("m", 0, 9)

        refused(ErrorCode.INVALID_RECORD_STATE, lambda: leader.accept("m", 0, 9))
        refused(ErrorCode.INVALID_RECORD_STATE, lambda: leader.accept("m", 4, 4))

    def test_what_is_released_is_not_available_yet(self, leader: Leader):
        leader.release("m", 2, 3)
        assert leader.fetch("other") == []

        leader.write()
        assert leader.fetch("other") == [(2, 3, 2)]

    def test_a_failed_write_leaves_the_records_acquired(self, leader: Leader):
        leader.accept("m", 0, 9)
        assert leader.records.delivery_complete_count == 10
        leader.fail_to_write()

        assert leader.records.delivery_complete_count == 0
        leader.accept("m", 0, 9)
        leader.write()
        assert leader.records.start_offset == 10

    def test_a_lock_that_ends_meanwhile_takes_effect_when_the_write_fails(self, leader: Leader):
        leader.accept("m", 0, 9)
        leader.wait(LOCK_MS)
        assert leader.held[1:] == []
        leader.fail_to_write()

        assert leader.fetch("other") == [(0, 9, 2)]

    def test_a_lock_that_ends_meanwhile_is_forgotten_when_the_write_succeeds(self, leader: Leader):
        leader.accept("m", 0, 9)
        assert leader.records.next_deadline_ms() is None
        leader.wait(LOCK_MS)
        leader.write()

        assert leader.records.start_offset == 10

    def test_on_its_last_delivery_such_a_record_is_archived(self):
        leader = Leader(1)
        leader.deliver_times(4)
        leader.fetch("m")
        leader.holds_writes = True
        leader.accept("m", 0, 0)
        leader.wait(LOCK_MS)
        leader.fail_to_write()

        assert leader.fetch("other") == []
        assert leader.records.delivery_complete_count == 1

    def test_a_log_that_moves_meanwhile_archives_for_good(self, leader: Leader):
        leader.release("m", 0, 9)
        leader.records.move_log_start(10)
        leader.fail_to_write()

        assert leader.fetch("m") == []
        leader.produce(5)
        leader.fetch("m")
        leader.accept("m", 10, 14)
        leader.write()
        assert leader.offsets == (15, 15, 15)

    def test_a_log_that_moves_into_the_batch_meanwhile(self, leader: Leader):
        leader.accept("m", 0, 9)
        leader.records.move_log_start(4)
        leader.wait(LOCK_MS)
        leader.fail_to_write()
        leader.log = [FetchedBatch(4, 9)]

        assert leader.offsets == (4, 9, 4)
        assert leader.fetch("m") == [(4, 9, 2)]
        leader.accept("m", 4, 9)
        leader.write()
        assert leader.offsets == (10, 10, 10)

    def test_two_writes_are_independent(self, leader: Leader):
        leader.accept("m", 0, 4)
        leader.accept("m", 5, 9)
        leader.fail_to_write()
        leader.write()
        assert leader.offsets == (0, 9, 10)

        leader.accept("m", 0, 4)
        leader.write()
        assert leader.offsets == (10, 10, 10)


class TestChecks:
    """What is refused whatever is acquired."""

    @staticmethod
    def check(
        *batches: tuple[int, int, list[int]], can_renew: bool = True, is_renew_ack: bool = True
    ) -> Callable[[], None]:
        made = [AcknowledgementBatch(first, last, tuple(types)) for first, last, types in batches]
        return lambda: check_acknowledgements(made, can_renew=can_renew, is_renew_ack=is_renew_ack)

    @pytest.mark.parametrize(
        "batches",
        [
            [],
            [(0, 0, [1])],
            [(0, 2, [1])],
            [(0, 2, [0, 1, 4])],
            [(0, 2, [1]), (2, 4, [1])],
            [(0, 2, [1]), (5, 5, [3])],
        ],
    )
    def test_passes(self, batches: list[tuple[int, int, list[int]]]):
        self.check(*batches)()

    @pytest.mark.parametrize(
        "batches",
        [
            [(1, 0, [1])],
            [(0, 2, [])],
            [(0, 2, [1, 1])],
            [(0, 2, [1, 1, 1, 1])],
            [(0, 2, [5])],
            [(0, 2, [-1])],
            [(5, 9, [1]), (0, 4, [1])],
            [(5, 9, [1]), (8, 12, [1])],
        ],
    )
    def test_refuses(self, batches: list[tuple[int, int, list[int]]]):
        refused(ErrorCode.INVALID_REQUEST, self.check(*batches))

    def test_refuses_renewing_in_version_1(self):
        refused(ErrorCode.INVALID_REQUEST, self.check((0, 2, [4]), can_renew=False))

    def test_refuses_renewing_that_the_request_does_not_announce(self):
        refused(ErrorCode.INVALID_REQUEST, self.check((0, 2, [4]), is_renew_ack=False))
        self.check((0, 2, [1]), is_renew_ack=False)()
