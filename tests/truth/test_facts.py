"""The judge of recorded rules and panels: that it leaves none out, and that it can say no."""

import re

import pytest

from tests.truth import facts, planted
from tests.truth.facts import Fact, State, differences
from tests.truth.kafka_says import ClientId, Group, Member
from tests.truth.plan import Change, Kind, plan

VIA, PAST = ClientId("via1", Kind.CLASSIC, 1), ClientId("past", Kind.CLASSIC, 2)
GROUP = Group("consumer", "consumer", "Stable", (Member(VIA, "consumer"), Member(PAST, "classic")), None)
WORKERS = Group("classic", "connect", "Stable", (Member(ClientId("via0", Kind.CONNECT, 3), "classic"),), None)
STATE = State(
    {"g": GROUP, "c": WORKERS}, {"g": "translate", "c": "observe"}, frozenset({0, 1}), has_fleet=True
)


def result(**values: float) -> list[dict[str, object]]:
    return [{"metric": {"group": group}, "value": [0, str(value)]} for group, value in values.items()]


def test_each_panel_and_each_recorded_rule_is_judged_or_it_is_said_why_not():
    board, of_group = facts.panels(facts.CLUSTER_BOARD), facts.panels(facts.GROUP_BOARD)
    judged = {*facts.PANELS, *facts.of_group("g")}
    assert {*board, *of_group} == judged | facts.NOT_JUDGED.keys()
    assert not judged & facts.NOT_JUDGED.keys()
    assert all(len(board[title]) == 1 for title in facts.PANELS)
    names = re.findall(r"record: (\S+)", facts.RULES.read_text(encoding="utf-8"))
    assert set(names) == facts.RECORDED.keys() | facts.NOT_JUDGED_RULES.keys()
    assert not facts.RECORDED.keys() & facts.NOT_JUDGED_RULES.keys()


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("epochgate:group_members:sum", {("g", "translated"): 1, ("c", "connect"): 1}),
        ("epochgate:group_broker_members:max", {("g", "consumer"): 1, ("g", "classic"): 1}),
        ("epochgate:group_members_elsewhere", {("g",): 1}),
        ("epochgate:group_migrated:ratio", {("g",): 0.5}),
        ("epochgate:migrated:ratio", {(): 0.5}),
        ("epochgate:groups", {("translate",): 1, ("observe",): 1}),
        ("epochgate:cluster_groups:max", {("consumer", "consumer"): 1, ("classic", "connect"): 1}),
        ("epochgate:cluster_migrated:ratio", {(): 0.5}),
    ],
)
def test_the_truth_follows_from_what_kafkas_tools_say(name, truth):
    assert facts.RECORDED[name][1](STATE) == truth


def test_the_log_has_what_a_killed_replica_served():
    name = "Members in the log, by state"
    assert facts.PANELS[name][1](STATE) == {("served",): 1}
    assert facts.PANELS[name][1](STATE._replace(silent=2)) == {("served",): 1, ("silent",): 2}
    assert facts.PANELS[name][1](STATE._replace(has_fleet=False)) == {}


@pytest.mark.parametrize("values", [{"g": 2}, {}, {"g": 1, "h": 1}])
def test_another_value_a_missing_series_and_one_too_many_are_differences(values):
    fact = Fact("elsewhere", "", ("group",), lambda _: {("g",): 1})
    assert differences(fact, result(**values), STATE)
    assert not differences(fact, result(g=1, h=0), STATE)


def test_a_ratio_of_0_is_not_a_missing_one():
    fact = Fact("ratio", "", ("group",), lambda _: {("g",): 0}, is_ratio=True)
    assert differences(fact, [], STATE)
    assert not differences(fact, result(g=0), STATE)


def test_planted_rules_have_names_of_their_own():
    names = [rule["record"] for group in planted.rules()["groups"] for rule in group["rules"]]
    of_the_chart = len(facts.RECORDED) + len(facts.NOT_JUDGED_RULES)
    assert len(names) == len(set(names)) == of_the_chart * (1 + len(planted.PLANTED))


def test_a_seed_is_one_plan_and_thirty_states_have_every_change():
    assert plan(1, 10) == plan(1, 10) != plan(2, 10)
    for seed in (11, 12, 13):
        steps = plan(seed, 10)
        assert [one.change for one in steps[0]] == [Change.NEW_GROUP] * len(Kind)
    assert {one.change for seed in (11, 12, 13) for steps in plan(seed, 10) for one in steps} == set(Change)
