"""`epochgate policy check`: what a policy does in words, and what may not have been meant."""

import pytest

from protocol_codecs.classic_clients import LOST_AT_ONCE
from proxy.config.policy_explanation import explain, rule_reports, wave_reports
from translation.policy.group_type import GroupType
from translation.policy.policy import Mode, Policy, Rule, Waves

POLICY = Policy(
    default=Mode.OBSERVE,
    rules=(
        Rule(group="payments", mode=Mode.TRANSLATE, assignor="range"),
        Rule(pattern="web-.*", mode=Mode.TRANSLATE),
        Rule(group="web-old", mode=Mode.OBSERVE),
        Rule(pattern="evil-.*", mode=Mode.REJECT),
    ),
)


def test_every_rule_is_explained_in_order_and_one_that_never_applies_is_named():
    assert list(explain(POLICY)) == [
        (
            "rule 1 (group payments): translate: clients are made members of the new protocol, "
            "assigned by the server's range"
        ),
        "rule 2 (groups that match web-.*): translate: clients are made members of the new protocol",
        "rule 3 (group web-old): observe: clients are passed through and counted",
        "  never applies: rule 2 (groups that match web-.*) already matches the same groups",
        "rule 4 (groups that match evil-.*): reject: clients are refused with GROUP_AUTHORIZATION_FAILED",
        "all other groups: observe: clients are passed through and counted",
        (
            "not known from the file: a live group is converted in place, with two exceptions: user data in its "
            f"assignments, and kafka-go; {LOST_AT_ONCE}"
        ),
    ]


def test_a_policy_that_translates_nothing_says_nothing_of_moves():
    observed = Policy(rules=(Rule(group="a", mode=Mode.OBSERVE),))
    assert list(explain(observed))[-1] == "all other groups: observe: clients are passed through and counted"


def test_proof_is_explained():
    rule = Rule(
        group="payments", mode=Mode.TRANSLATE, steps=(1, "100%"), proof_s=600, unproven_override="INC-7, Anna"
    )
    explained, *notes, _, _ = explain(Policy(rules=(rule,)))
    assert explained.endswith(
        "each held for 600 s and until it is proven for 600 s, or unproven (INC-7, Anna)"
    )
    assert any("`verify.live`" in note for note in notes)


def test_steps_are_explained_with_what_the_file_does_not_tell():
    rule = Rule(group="payments", mode=Mode.TRANSLATE, steps=(1, "10%"), hold_s=60)
    assert list(explain(Policy(rules=(rule,))))[:-2] == [
        (
            "rule 1 (group payments): translate: clients are made members of the new protocol; a live group is moved "
            "in steps of 1, 10%, each held for 60 s"
        ),
        (
            "  not known from the file: steps need brokers with group.consumer.migration.policy=bidirectional (Kafka's "
            "default), and `fleet` where several processes serve a group"
        ),
        "  groups that are moved all at once stay classic until a step of 100% is the only one",
        "  ends at 10%: the other members of each group stay classic",
    ]


@pytest.mark.parametrize(
    ("group_type", "who"),
    [
        (GroupType.CONSUMER, "share and streams members"),
        (GroupType.SHARE, "consumers, classic ones too, and streams members"),
        (GroupType.STREAMS, "consumers, classic ones too, and share members"),
    ],
)
def test_a_rule_with_a_type_says_who_may_not_join(group_type, who):
    said, _ = explain(Policy(rules=(Rule(group="a", mode=Mode.OBSERVE, type=group_type),)))
    assert said.endswith(f"; {who} may not join")


def test_a_pattern_given_twice_never_applies_the_second_time():
    rules = (Rule(pattern="a.*", mode=Mode.TRANSLATE), Rule(pattern="a.*", mode=Mode.OBSERVE))
    assert "  never applies: rule 1 (groups that match a.*) already matches the same groups" in list(
        explain(Policy(rules=rules))
    )


@pytest.mark.parametrize("pattern", [".*", ".+"])
def test_what_comes_after_a_pattern_for_all_groups_never_applies(pattern):
    rules = (Rule(pattern=pattern, mode=Mode.OBSERVE), Rule(pattern="web-.*", mode=Mode.TRANSLATE))
    assert f"  never applies: rule 1 (groups that match {pattern}) already matches the same groups" in list(
        explain(Policy(rules=rules))
    )


@pytest.mark.parametrize(
    ("rule", "note"),
    [
        (
            Rule(pattern="web-", mode=Mode.TRANSLATE),
            "matches the group web- only: a pattern must match the whole id, as web-.* would",
        ),
        (
            Rule(group="a", mode=Mode.OBSERVE, assignor="range"),
            "the assignor range has no effect: only translated groups get one",
        ),
        (
            Rule(group="a", mode=Mode.TRANSLATE, assignor="ours"),
            "the broker must have the assignor ours (group.consumer.assignors)",
        ),
        (
            Rule(group="a", mode=Mode.REJECT, type=GroupType.SHARE),
            "the type share has no effect: nobody may join",
        ),
    ],
)
def test_what_may_not_have_been_meant_is_noted(rule, note):
    _, said, *_ = explain(Policy(rules=(rule,)))
    assert said == f"  {note}"


def test_what_allowing_an_assignor_does_is_explained():
    policy = Policy(assignors_allowed=("ours", "range", "ours"))
    assert list(explain(policy))[:-1] == [
        (
            "assignor ours: its groups get uniform, unless their rule names an assignor, which those whose "
            "subscriptions carry user data need"
        ),
        "assignor range: no effect: it is known, its groups get range",
        "assignor ours: named twice",
    ]


WAVES = Policy(
    rules=(
        Rule(group="first", mode=Mode.OBSERVE),
        Rule(groups=("first", "a", "b"), mode=Mode.TRANSLATE, steps=("100%",), wave=1),
        Rule(group="c", mode=Mode.TRANSLATE, steps=("100%",), wave=3),
        Rule(groups=("d", "d"), mode=Mode.TRANSLATE, steps=("100%",), wave=4),
        Rule(groups=("x" * 256, "y"), mode=Mode.TRANSLATE),
    ),
    waves=Waves(share="90%"),
)


def test_waves_are_listed_with_what_they_wait_for():
    lines = list(explain(WAVES))
    assert [line for line in lines if line.startswith("wave ")] == [
        "wave 1: 2 groups; waits for no other",
        "wave 3: 1 group; begins when 90% of wave 1 is over, and no group there is held or aborted",
        "wave 4: 1 group; begins when 90% of each of the waves 1, 3 is over, and no group there is held or aborted",
    ]
    assert lines[1].startswith("rule 2 (3 groups): translate: ")
    assert lines[1].endswith(" in steps of 100%, each held for 600 s, in wave 1")
    assert [(one.wave, one.groups, one.after) for one in wave_reports(WAVES)] == [
        (1, 2, ()),
        (3, 1, (1,)),
        (4, 1, (1, 3)),
    ]


def test_what_may_not_be_meant_in_a_list_of_groups_is_said():
    assert [one.notes for one in rule_reports(WAVES)] == [
        (),
        ("does not apply to 1 group of them, first among them: an earlier rule does",),
        (),
        ("names a group twice",),
        ("1 group of them with ids of more than 255 characters: such a group is never translated",),
    ]
    hidden = Policy(
        rules=(Rule(pattern="a.*", mode=Mode.OBSERVE), Rule(groups=("a", "ab"), mode=Mode.OBSERVE))
    )
    assert rule_reports(hidden)[1].notes == (
        "never applies: rule 1 (groups that match a.*) already matches the same groups",
    )


def test_many_rules_are_explained_without_comparing_each_with_each(monkeypatch: pytest.MonkeyPatch):
    matched: list[str] = []
    monkeypatch.setattr(Rule, "matches", lambda _, group_id: bool(matched.append(group_id)))
    rules = tuple(Rule(group=f"g{number}", mode=Mode.OBSERVE) for number in range(2_000))
    assert len(list(explain(Policy(rules=rules)))) == 2_001
    assert matched == []
