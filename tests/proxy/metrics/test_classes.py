"""Each metric has a class, and each rule, alert and panel combines replicas as the class of its metrics allows."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from proxy.exporter.families import OWN_METRICS
from proxy.metrics.classes import NAMED, Class, class_of
from proxy.metrics.registry import Metrics

FILES = Path(__file__).parents[3] / "charts" / "epochgate" / "files"
AGGREGATIONS = ("sum", "max", "min", "avg", "count", "topk", "bottomk")
_BY = re.compile(r"\b(sum|max|min|avg|count|topk|bottomk) by \(([^)]*)\)")
_MATCHING = re.compile(r"\b(and|unless|or|-|/|\*)?\s*\b(on|ignoring) \([^)]*\)")
_SUFFIX = re.compile(r"_(bucket|count|sum)$")
BY_INSTANCE = "@"
"""Is appended to the name of an aggregation that keeps each process apart."""


def innermost(expression: str) -> Iterator[tuple[str, str, str]]:
    """Each metric of ours, its matchers, and the aggregation that is applied first to it; empty: none."""

    def named(found: re.Match[str]) -> str:
        return found[1] + (BY_INSTANCE if re.search(r"\binstance\b", found[2]) else "")

    text = _MATCHING.sub(r"\1", _BY.sub(named, expression))
    words = re.findall(r"[a-zA-Z_][a-zA-Z0-9_:@]*|[()]|\{[^}]*\}", text)
    opened: list[str] = []
    for number, word in enumerate(words):
        if word == "(":
            opened.append(words[number - 1] if number else "")
        elif word == ")":
            opened.pop()
        elif word.startswith("epochgate_"):
            follows = words[number + 1] if number + 1 < len(words) else ""
            around = [one for one in opened if one.removesuffix(BY_INSTANCE) in AGGREGATIONS]
            yield word, follows if follows.startswith("{") else "", around[-1] if around else ""


def wrong(expression: str) -> list[str]:
    """The metrics of an expression that are combined as their class does not allow."""
    found = []
    for name, matchers, aggregation in innermost(expression):
        if aggregation.endswith(BY_INSTANCE) or 'direction="read"' in matchers:
            continue
        allowed = {
            Class.ADDITIVE: ("sum", ""),
            Class.EVERYBODYS: ("max", ""),
            Class.ONE_PROCESS: ("max", "min", ""),
        }[class_of(_SUFFIX.sub("", name))]
        counts_processes = re.search(rf"count\({name}{re.escape(matchers)} (== 1|> 0)\)", expression)
        if aggregation not in allowed and not counts_processes:
            found.append(f"{aggregation} of {name}")
    return found


def expressions() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load((FILES / "rules.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule.get("alert") or rule["record"], rule["expr"]
    for file in FILES.glob("dashboard*.json"):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", ()):
                yield panel["title"], target["expr"]


def test_each_class_is_of_metrics_that_there_are():
    kinds = {one.name: one.kind for one in Metrics().table} | dict.fromkeys(OWN_METRICS, "gauge")
    assert kinds.keys() >= NAMED
    assert {kinds[name] for name in NAMED} == {"gauge"}, "counters are each process's own"


@pytest.mark.parametrize(("where", "expression"), list(expressions()), ids=lambda one: one[:40])
def test_replicas_are_combined_as_the_class_of_the_metric_says(where, expression):
    assert wrong(expression) == [], where


@pytest.mark.parametrize(
    ("expression", "finds"),
    [
        ("sum(epochgate_group_moves)", ["sum of epochgate_group_moves"]),
        ("max by (group) (epochgate_group_members)", ["max of epochgate_group_members"]),
        ("sum(epochgate_ready)", ["sum of epochgate_ready"]),
        ("sum(max by (group) (epochgate_group_stuck))", []),
        ("sum by (instance) (epochgate_ready)", []),
        ("max(rate(epochgate_events_total[1m]))", ["max of epochgate_events_total"]),
    ],
)
def test_a_wrong_aggregation_is_found(expression, finds):
    assert wrong(expression) == finds
