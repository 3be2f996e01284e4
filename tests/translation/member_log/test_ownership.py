"""The table of ownership; what leads through it is in :mod:`tests.translation.member_log.test_member_log`."""

import pytest

from translation.member_log.ownership import (
    OWNERSHIPS,
    IllegalOwnershipChange,
    Ownership,
    OwnershipEvent,
    OwnershipMachine,
)


def test_each_seat_has_a_block_and_each_event_is_in_the_table() -> None:
    assert set(OWNERSHIPS) == set(Ownership)
    assert {event for exits in OWNERSHIPS.values() for event in exits} == set(OwnershipEvent)


def test_a_dead_id_ends_is_forgotten_or_lost_and_nothing_else() -> None:
    for ownership in (Ownership.EXPIRED, Ownership.ENDED):
        assert set(OWNERSHIPS[ownership].values()) == {Ownership.ENDED, Ownership.UNKNOWN}


def test_what_the_log_says_is_taken_from_every_living_seat() -> None:
    said = {
        OwnershipEvent.OWN_SERVED_COUNTS: Ownership.SERVING,
        OwnershipEvent.OTHER_SERVED_COUNTS: Ownership.ELSEWHERE,
        OwnershipEvent.EXPIRING_COUNTS: Ownership.EXPIRED,
        OwnershipEvent.ENDED_COUNTS: Ownership.ENDED,
        OwnershipEvent.RELAYED_COUNTS: Ownership.RELAYED,
        OwnershipEvent.LOG_LOST: Ownership.UNKNOWN,
    }
    for ownership in set(Ownership) - {Ownership.EXPIRED, Ownership.ENDED}:
        assert said.items() <= OWNERSHIPS[ownership].items()


def test_only_a_member_that_is_served_is_expired() -> None:
    assert [
        ownership for ownership in Ownership if OwnershipEvent.EXPIRING_WRITTEN in OWNERSHIPS[ownership]
    ] == [Ownership.SERVING]


def test_what_can_not_happen_is_refused() -> None:
    machine = OwnershipMachine()
    machine.handle(OwnershipEvent.EXPIRING_COUNTS)
    with pytest.raises(IllegalOwnershipChange, match="served written"):
        machine.handle(OwnershipEvent.CLAIM_WRITTEN)
    assert machine.ownership is Ownership.EXPIRED
