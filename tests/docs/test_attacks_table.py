"""The table of attacks in docs/explanation/security.md is made from what benchmarks/attacks recorded."""

from dataclasses import replace

import pytest

from tools import attacks_table

TIMED = {
    "longest wait, ms": 90,
    "refused for, s": 0.3,
    "rejoins": 0,
    "not answered": 0,
    "answers": {"NONE": 99},
}
OUTCOME = {
    "code": "after", "commit": "abcdef0", "date": "2026-11-28", "members": 20_000, "kafka": "4.4.0", "number": 0,
    "of": "1", "attack": "a key",
    "ends": [], "rejoins": 1, "rejoins_straight": 1, "not_ready_s": 0.0, "healed_s": 0.3,
    "timed": TIMED, "seen": {"records written": 16}, "failed": "",
}  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        ({}, "not noticed"),
        ({"ends": ["replica 0 ended with 70"] * 2}, "**2 ends of processes**"),
        ({"not_ready_s": 55.2, "healed_s": None}, "not ready for 55 s; **not healed after 45 s**"),
        ({"healed_s": 11.2, "rejoins": 3}, "healed after 11 s; **2 rejoins**"),
        (
            {"timed": TIMED | {"longest wait, ms": 20_000, "refused for, s": 21.0, "not answered": 1}},
            "a Heartbeat refused for 21 s; a call waits 20.0 s; **1 call not answered**",
        ),
        ({"seen": {"status": ["421", "421"], "new ids": 200}}, "status: 421 and 421"),
        ({"failed": "no owners\nmore"}, "not made: no owners"),
        ({"failed": "no owners", "ends": ["replica 0 ended with 70"]}, "**replica 0 ended with 70**"),
        ({"seen": {"noticed": False}}, "**not shown**"),
        ({"seen": {"move": "step 1 of 2 (1); more", "of the new protocol": 0}}, "the move: step 1 of 2 (1)"),
        ({"seen": {"move before": "before", "move after": "step 1"}}, "the move: before, then step 1"),
    ],
)  # fmt: skip
def test_an_outcome_says_what_was_noticed(seen, says):
    assert f"| a key | not run | {says} |" in attacks_table.table([OUTCOME | seen])


def test_both_versions_of_the_code_are_in_a_row():
    before = OUTCOME | {"code": "before", "commit": "1234567", "not_ready_s": 55.0}
    page = attacks_table.OUTCOMES.written("<!-- attacks -->\nold\n<!-- /attacks -->\n", [before, OUTCOME])
    assert "| a key | not ready for 55 s | not noticed |" in page
    assert "before the mends: `1234567`, 2026-11-28, Kafka 4.4.0; this code: `abcdef0`" in page


def test_an_outcome_takes_the_place_of_that_of_the_same_attack_and_code(tmp_path):
    outcomes = replace(attacks_table.OUTCOMES, file=tmp_path / "attacks.json")
    before, second = OUTCOME | {"code": "before"}, OUTCOME | {"attack": "another", "number": 1}
    for one in (second, before, OUTCOME, OUTCOME | {"healed_s": 2.0}):
        outcomes.keep(one)
    assert outcomes.read() == [before, OUTCOME | {"healed_s": 2.0}, second]
