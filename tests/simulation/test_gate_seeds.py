"""Histories of a move that has gates: what is well is moved, harm is taken back once, and what is not known stops it.

``python -m tests.simulation --steps --gates [KIND] [--fleet] --seeds 500`` plays more of them.
"""

from collections import Counter
from functools import cache

import pytest

from tests.simulation.gate_kinds import CONTROL, FAULT, HARM, KINDS
from tests.simulation.plan import ANY_GATE, make_plan
from tests.simulation.simulation import Result, run

SEEDS = range(14, 18)
"""Of each kind, in one process and with a member log; in every second nothing else goes wrong."""

FAILED_ONCE = (
    452,  # windows of a replica that had fallen silent were added to later ones of another
    940,  # likewise: rejoins
)


@cache
def results(kind: str, *, fleet: bool) -> tuple[Result, ...]:
    return tuple(run(seed, make_plan(seed, fleet=fleet, steps=True, gates=kind)) for seed in SEEDS)


@pytest.mark.parametrize("fleet", [False, True], ids=["alone", "fleet"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind or "healthy")
def test_the_invariants_hold(kind: str, *, fleet: bool) -> None:
    for result in results(kind, fleet=fleet):
        assert result.failure is None, f"seed {result.seed}: {result.failure}\n{result.story}"


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_what_failed_once(seed: int) -> None:
    result = run(seed, make_plan(seed, fleet=True, steps=True, gates=ANY_GATE))
    assert result.failure is None, f"{result.failure}\n{result.story}"


def test_what_is_planted_has_its_effect() -> None:
    counts: Counter[str] = Counter()
    for kind in (HARM, CONTROL, FAULT):
        for result in results(kind, fleet=True):
            counts.update(result.counts)
    assert counts["gates: baseline"] > 2 * len(SEEDS)
    assert counts["gates: aborted"] >= 2
    assert counts["gates: paused"] >= len(SEEDS)
