"""Groups by name are looked up, patterns are tried in order; the first rule that matches counts all the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translation.policy.pattern_index import PatternError
from translation.policy.policy import Mode, Policy, Rule

NAMES = ("a", "b", "ab", "ba", "c")
rule = st.one_of(
    st.builds(Rule, mode=st.sampled_from(Mode), group=st.sampled_from(NAMES)),
    st.builds(
        Rule,
        mode=st.sampled_from(Mode),
        groups=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(tuple),
    ),
    st.builds(
        Rule,
        mode=st.sampled_from(Mode),
        pattern=st.sampled_from(
            ["a.*", "ab?", "(a|b).*", "(?i)A.*", "^a.*b$", ".*b", ".", ".*", r"\Qa", "é.*"]
        ),
    ),
)


@given(st.lists(rule, max_size=8).map(tuple), st.sampled_from([*NAMES, "other", "abb", "éa", ""]))
def test_the_first_rule_that_matches_counts(rules: tuple[Rule, ...], group_id: str) -> None:
    policy = Policy(rules=rules)
    first = next((number for number, one in enumerate(rules) if one.matches(group_id)), None)
    assert policy.number_for(group_id) == first
    expected = Rule(mode=policy.default, group=group_id) if first is None else rules[first]
    assert policy.rule_for(group_id) == expected


def test_only_patterns_that_begin_as_the_id_does_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(Rule(mode=Mode.TRANSLATE, group=f"g{number}") for number in range(20_000))
    patterns = tuple(Rule(mode=Mode.TRANSLATE, pattern=f"web-{number}-.*") for number in range(2_000))
    policy = Policy(rules=(*names, *patterns, Rule(mode=Mode.REJECT, pattern=".*x")))
    tried: list[str] = []

    class Counted:
        def __init__(self, compiled: Any) -> None:
            self._compiled = compiled

        def fullmatch(self, group_id: bytes) -> object:
            tried.append(self._compiled.pattern)
            return self._compiled.fullmatch(group_id)

    by_prefix = policy._patterns._by_prefix
    for prefix, found in by_prefix.items():
        by_prefix[prefix] = [(number, Counted(compiled)) for number, compiled in found]
    assert policy.number_for("g19999") == 19_999
    assert tried == [], "a name counts before all patterns"
    assert policy.number_for("web-7-a") == 20_007
    assert tried == [".*x", "web-7-.*"]
    assert policy.number_for("web-7-a") == 20_007
    assert len(tried) == 2, "a group that was looked up is not searched again"


@pytest.mark.parametrize("pattern", [".*a.{20}-%d", "web-(.{0,20}a){10}-%d", "(?:[a-z0-9]{1,20}-){5,10}%d"])
def test_patterns_that_together_cost_an_id_too_much_are_refused(pattern: str) -> None:
    """800 such patterns made the call of an innocent client wait for seconds while others made up group ids."""
    rules = tuple(Rule(mode=Mode.TRANSLATE, pattern=pattern % number) for number in range(800))
    with pytest.raises(PatternError, match=r"RE2 instructions are tried on .*: 10000 is the limit"):
        Policy(rules=rules)
    assert Policy(rules=rules[:3]).number_for("a" * 255) is None


def test_a_prepared_policy_knows_the_groups_of_the_one_before() -> None:
    before = Policy(rules=(Rule(mode=Mode.TRANSLATE, pattern=".*b"),))
    before.number_for("ab")
    after = Policy(rules=(Rule(mode=Mode.TRANSLATE, pattern="c.*"), Rule(mode=Mode.TRANSLATE, pattern=".*b")))
    after.prepare(before)
    after._patterns._by_prefix.clear()
    assert after.number_for("ab") == 1


def test_waves_are_of_the_rule_that_counts() -> None:
    step = {"mode": Mode.TRANSLATE, "steps": ("100%",)}
    policy = Policy(
        rules=(
            Rule(mode=Mode.OBSERVE, pattern="a.*"),
            Rule(groups=("ab", "b"), wave=1, **step),
            Rule(groups=("b", "c"), wave=2, **step),
        )
    )
    assert policy.wave_of == {"b": 1, "c": 2}


@pytest.mark.parametrize(
    "given_keys", [{"group": "g"}, {"pattern": "g", "steps": (1,)}], ids=["no steps", "a pattern"]
)
def test_a_wave_needs_names_and_steps(given_keys: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="`wave` needs `steps`"):
        Rule(mode=Mode.TRANSLATE, wave=1, **given_keys)
