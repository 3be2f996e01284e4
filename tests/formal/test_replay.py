"""Traces of ``Translation.tla``, played on the real translation and the embedded coordinator (``replay.py``)."""

import re
from collections import Counter

import pytest
from msgspec.structs import replace

from tests.formal.checker import MODELS
from tests.formal.replay import (
    ACTIONS,
    NOT_PLAYED,
    ONLY_OF_MUTATIONS,
    Divergence,
    Player,
    play_all,
    replay,
)
from tests.formal.replay_mutants import MUTANTS, first_failure
from tests.formal.traces import SETTINGS, State, draw, read_trace

TRACES, SEED = 60, 23


@pytest.fixture(scope="module")
def drawn(tlc_folders):
    """The traces of the short form, by setting."""
    return {setting: draw(setting, traces=TRACES, seed=SEED, folder=tlc_folders()) for setting in SETTINGS}


def test_the_code_does_what_the_model_does(drawn):
    replayed = [play_all(setting, traces) for setting, traces in drawn.items()]
    assert [one.failure for one in replayed] == [None] * len(SETTINGS)
    assert sum((one.steps for one in replayed), Counter()).keys() == ACTIONS


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_code_does_what_the_model_does_in_many_traces(setting, tlc):
    assert replay(setting, traces=300, seed=SEED + 1, folder=tlc).failure is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_code_that_is_broken_is_noticed(mutant, drawn):
    failure = first_failure(mutant, drawn)
    assert failure is not None
    assert "in the model" in failure or "was answered" in failure


def test_another_state_than_the_models_is_noticed(drawn):
    setting = SETTINGS[0]
    trace = drawn[setting][0]
    last = trace[-1].of
    other = State({**last, "own": {**last["own"], "c1": last["own"]["c1"] ^ {"p1"}}})
    Player(setting, trace).play()
    with pytest.raises(Divergence, match="own of c1"):
        Player(setting, (*trace[:-1], other)).play()


def test_every_action_of_the_model_is_known():
    text = (MODELS / "Translation.tla").read_text()
    assert set(re.findall(r"last' = <<\"(\w+)\"", text)) == ACTIONS | ONLY_OF_MUTATIONS | NOT_PLAYED


def test_the_same_seed_gives_the_same_traces(drawn, tlc):
    assert draw(SETTINGS[1], traces=2, seed=SEED, folder=tlc) == drawn[SETTINGS[1]][:2]


def test_a_trace_is_read_as_tlc_writes_it():
    (state,) = read_trace(
        "---- MODULE trace ----\nSTATE_1 == \n/\\ epoch = 3\n/\\ lost = (c1 :> FALSE @@ c2 :> TRUE)\n"
        '/\\ assigned = ( <<c1, "new">> :> {p2, p1} @@\n  <<c2, "new">> :> {} )\n'
        '/\\ last = <<"Die", c1>>\n\n\n====\n'
    )
    assert state == State(
        {
            "epoch": 3,
            "lost": {"c1": False, "c2": True},
            "assigned": {("c1", "new"): frozenset({"p1", "p2"}), ("c2", "new"): frozenset()},
            "last": ("Die", "c1"),
        }
    )
    assert (state.step, state.whose) == ("Die", "c1")
    assert replace(state, of={**state.of, "last": ("CompleteClassicRebalance",)}).whose == ""
