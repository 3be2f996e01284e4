"""Groups by name are looked up, patterns are tried in order; the first rule that matches counts all the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from translation.policy.policy import Mode, Policy, Rule

NAMES = ("a", "b", "ab", "ba", "c")
rule = st.one_of(
    st.builds(Rule, mode=st.sampled_from(Mode), group=st.sampled_from(NAMES)),
    st.builds(
        Rule,
        mode=st.sampled_from(Mode),
        groups=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(tuple),
    ),
    st.builds(Rule, mode=st.sampled_from(Mode), pattern=st.sampled_from(["a.*", ".*b", ".", ".*"])),
)


@given(st.lists(rule, max_size=8).map(tuple), st.sampled_from([*NAMES, "other"]))
def test_the_first_rule_that_matches_counts(rules: tuple[Rule, ...], group_id: str) -> None:
    policy = Policy(rules=rules)
    first = next((number for number, one in enumerate(rules) if one.matches(group_id)), None)
    assert policy.number_for(group_id) == first
    expected = Rule(mode=policy.default, group=group_id) if first is None else rules[first]
    assert policy.rule_for(group_id) == expected


def test_a_group_among_many_names_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = tuple(Rule(mode=Mode.TRANSLATE, group=f"g{number}") for number in range(20_000))
    tried: list[str] = []
    monkeypatch.setattr(Rule, "matches", lambda _, group_id: bool(tried.append(group_id)))
    policy = Policy(rules=(*rules, Rule(mode=Mode.REJECT, pattern="x")))
    assert policy.number_for("g19999") == 19_999
    assert policy.number_for("other") is None
    assert tried == ["other"], "only the pattern is tried, and only by whom no name matches before it"


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
