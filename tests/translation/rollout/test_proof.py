"""Whether a step is proven for long enough, by the record of its proof: the pure decision."""

import pytest

from translation.member_log.group_records import (
    GroupRecord,
    Proof,
    StoredGroup,
    decode_group_value,
    encode_group_value,
)
from translation.member_log.records import Writer
from translation.policy.policy import Mode, Rule
from translation.rollout.step_start import STALE_MS, WRITE_EVERY_MS, is_to_be_written, why_not_proven

RULE = Rule(group="g", mode=Mode.TRANSLATE, steps=(1, "100%"), proof_s=60)
SETTLED_MS = 1_000_000


def stored(proof: Proof, appended_ms: int) -> StoredGroup:
    return StoredGroup(7, appended_ms, Writer(bytes(16)), GroupRecord(version=7, proof=proof))


def test_a_rule_that_does_not_ask_needs_no_proof() -> None:
    assert why_not_proven(Rule(group="g", mode=Mode.TRANSLATE), None, SETTLED_MS, SETTLED_MS) == ""


def test_no_record_is_no_proof() -> None:
    assert why_not_proven(RULE, None, SETTLED_MS, SETTLED_MS) == "no replica verifies it"


def test_what_counts_is_proven_after_the_step_has_settled() -> None:
    """The group has been clean for an hour; the last look was 15 s before the record was written."""
    clean = Proof(clean_ms=3_600_000, ago_ms=15_000)
    early, late = (SETTLED_MS + after_ms for after_ms in (74_999, 75_000))
    assert why_not_proven(RULE, stored(clean, early), SETTLED_MS, early) == "proven for 59 of 60 s"
    assert why_not_proven(RULE, stored(clean, late), SETTLED_MS, late) == ""


def test_a_window_that_began_anew_counts_from_then_on() -> None:
    proof = Proof(clean_ms=20_000, ago_ms=0, why="events are missing")
    now_ms = SETTLED_MS + 500_000
    assert why_not_proven(RULE, stored(proof, now_ms), SETTLED_MS, now_ms) == (
        "proven for 20 of 60 s (events are missing)"
    )


def test_two_owners_are_never_proven_however_long_ago() -> None:
    proof = Proof(clean_ms=3_600_000, violated=True)
    now_ms = SETTLED_MS + 500_000
    assert why_not_proven(RULE, stored(proof, now_ms), SETTLED_MS, now_ms) == "a partition had two owners"


def test_a_record_that_has_grown_old_proves_nothing() -> None:
    proof, at_ms = Proof(clean_ms=3_600_000), SETTLED_MS + 100_000
    assert why_not_proven(RULE, stored(proof, at_ms), SETTLED_MS, at_ms + STALE_MS) == ""
    assert why_not_proven(RULE, stored(proof, at_ms), SETTLED_MS, at_ms + STALE_MS + 1) == (
        "verified 180 s ago for the last time"
    )


@pytest.mark.parametrize(
    ("proof", "after_ms", "written"),
    [
        (Proof(clean_ms=6_000), 5_000, False),
        (Proof(clean_ms=6_000), WRITE_EVERY_MS, True),
        (Proof(clean_ms=0), 5_000, True),
        (Proof(clean_ms=6_000, violated=True), 5_000, True),
    ],
)
def test_a_proof_is_written_each_minute_or_when_it_says_something_else(
    proof: Proof, after_ms: int, written: bool
) -> None:
    assert is_to_be_written(stored(Proof(clean_ms=1_000), 0), proof, after_ms) is written


def test_the_first_proof_is_written() -> None:
    assert is_to_be_written(None, Proof(), 0)


def test_a_record_of_a_proof_is_what_was_written() -> None:
    record = GroupRecord(version=3, proof=Proof(clean_ms=1, ago_ms=2, violated=True, why="x" * 200))
    assert decode_group_value(encode_group_value(record)) == record
