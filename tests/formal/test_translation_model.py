"""``Translation.tla`` keeps its invariants and refines ``Ownership.tla``, and needs each of the proxies' rules."""

import pytest

from tests.formal.checker import TlcError, read
from tests.formal.translation_model import INVARIANTS, LONG, MUTANTS, SHORT, explore


@pytest.mark.parametrize(
    "scope", [*SHORT, *(pytest.param(one, marks=pytest.mark.long) for one in LONG)], ids=str
)
def test_all_states_keep_the_invariants(scope, tlc):
    checked = explore(scope, tlc)
    assert checked.violated is None, checked.story
    assert checked.distinct > 1_000, "the scope is so small that hardly anything happens in it"


@pytest.mark.parametrize("scope", MUTANTS, ids=lambda scope: scope.mutation)
def test_a_rule_that_is_left_out_is_missed(scope, tlc):
    checked = explore(scope, tlc)
    assert checked.violated in INVARIANTS
    assert checked.story[0] == "Init"


def test_what_is_no_result_is_an_error():
    with pytest.raises(TlcError, match="unrecognized option"):
        read("Error: unrecognized option: -x")
