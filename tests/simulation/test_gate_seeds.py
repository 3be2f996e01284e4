"""Histories of a move that has gates: what is well is moved, harm is taken back once, and what is not known stops it.

``python -m tests.simulation --steps --gates [KIND] [--fleet] --seeds 500`` plays more of them.
"""

from collections import Counter
from functools import cache

import pytest

from tests.simulation.gate_kinds import CONTROL, FAULT, HARM, KINDS
from tests.simulation.plan import make_plan
from tests.simulation.simulation import Result, run

SEEDS = range(14, 18)
"""Of each kind, in one process and with a member log; in every second nothing else goes wrong."""

OPEN = frozenset({("", True, 15)})
"""Open fault: rejoins that a fault causes at one replica are taken for harm of the move (kind, fleet, seed)."""


@cache
def results(kind: str, *, fleet: bool) -> tuple[Result, ...]:
    return tuple(run(seed, make_plan(seed, fleet=fleet, steps=True, gates=kind)) for seed in SEEDS)


@pytest.mark.parametrize("fleet", [False, True], ids=["alone", "fleet"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind or "healthy")
def test_the_invariants_hold(kind: str, *, fleet: bool) -> None:
    for result in results(kind, fleet=fleet):
        if (kind, fleet, result.seed) in OPEN:
            assert result.failure is not None, "it is mended: take it out of OPEN"
            continue
        assert result.failure is None, f"seed {result.seed}: {result.failure}\n{result.story}"


def test_what_is_planted_has_its_effect() -> None:
    counts: Counter[str] = Counter()
    for kind in (HARM, CONTROL, FAULT):
        for result in results(kind, fleet=True):
            counts.update(result.counts)
    assert counts["gates: baseline"] > 2 * len(SEEDS)
    assert counts["gates: aborted"] >= 2
    assert counts["gates: paused"] >= len(SEEDS)
