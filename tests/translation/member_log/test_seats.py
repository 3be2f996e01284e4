"""The table of seats as a whole; what leads through it is in :mod:`tests.translation.member_log.test_member_log`."""

import pytest

from translation.member_log.seats import SEATS, IllegalSeatChange, Seat, SeatEvent, SeatMachine


def test_each_seat_has_a_block_and_each_event_is_in_the_table() -> None:
    assert set(SEATS) == set(Seat)
    assert {event for exits in SEATS.values() for event in exits} == set(SeatEvent)


def test_a_dead_id_ends_is_forgotten_or_lost_and_nothing_else() -> None:
    for seat in (Seat.EXPIRED, Seat.ENDED):
        assert set(SEATS[seat].values()) == {Seat.ENDED, Seat.UNKNOWN}


def test_what_the_log_says_is_taken_from_every_living_seat() -> None:
    said = {
        SeatEvent.OWN_SERVED_COUNTS: Seat.SERVING,
        SeatEvent.OTHER_SERVED_COUNTS: Seat.ELSEWHERE,
        SeatEvent.EXPIRING_COUNTS: Seat.EXPIRED,
        SeatEvent.ENDED_COUNTS: Seat.ENDED,
        SeatEvent.RELAYED_COUNTS: Seat.RELAYED,
        SeatEvent.LOG_LOST: Seat.UNKNOWN,
    }
    for seat in set(Seat) - {Seat.EXPIRED, Seat.ENDED}:
        assert said.items() <= SEATS[seat].items()


def test_only_a_member_that_is_served_is_expired() -> None:
    assert [seat for seat in Seat if SeatEvent.EXPIRING_WRITTEN in SEATS[seat]] == [Seat.SERVING]


def test_what_can_not_happen_is_refused() -> None:
    machine = SeatMachine()
    machine.handle(SeatEvent.EXPIRING_COUNTS)
    with pytest.raises(IllegalSeatChange, match="served written"):
        machine.handle(SeatEvent.CLAIM_WRITTEN)
    assert machine.seat is Seat.EXPIRED
