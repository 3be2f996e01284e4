"""Which accusations of `epochgate verify` count: those whose first owner lived, by its own log. Needs no Kafka."""

import pytest
from support.ownership import Event

from tests.held.check import accusations, with_moves
from tests.jepsen.history import History

MS = 1_000_000


def history(ended: str, at_ms: int) -> History:
    log = [Event("c1.1", "started", 0, 0), Event("c1.1", ended, at_ms * MS, at_ms * MS)]
    return History({"session_timeout_ms": 20_000}, {"c1.1": log}, {}, [])


EVENTS = [{"kind": "joined", "member": "m-1", "client_id": "c1.1", "time_us": 0}]
CERTIFIED = {"verdict": "violated", "owners": {"violations": [{"first_member": "m-1", "from_us": 5_000_000}]}}


@pytest.mark.parametrize(
    ("ended", "at_ms", "accused", "dead"),
    [("killed", 4_000, 0, 1), ("closed", 4_000, 0, 1), ("killed", 6_000, 1, 0), ("revoked", 4_000, 1, 0)],
)
def test_only_a_first_owner_that_had_ended_is_none(ended, at_ms, accused, dead):
    found, excused = accusations(history(ended, at_ms), EVENTS, CERTIFIED)
    assert (len(found), excused) == (accused, dead)


def test_a_member_that_nobody_knows_counts_as_alive():
    found, excused = accusations(history("killed", 4_000), [], CERTIFIED)
    assert (len(found), excused) == (1, 0)


def test_who_is_told_to_move_is_disturbed_and_nobody_else():
    told = {"kind": "policy_changed", "client_id": "c1.1", "time_us": 7_000_000}
    found = with_moves(history("killed", 9_000), [told])
    assert found.disturbed("c1.1", 6_000 * MS, 8_000 * MS)
    assert not found.disturbed("c2.1", 6_000 * MS, 8_000 * MS)
    assert not found.disturbed("c1.1", 7_500 * MS, 8_000 * MS)
