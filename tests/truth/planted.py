"""Wrong aggregations, which Prometheus evaluates beside the right rules: the judge has to find each of them."""

from typing import Any, NamedTuple

import yaml

from tests.truth.facts import RULES

_TOTALS = ("epochgate-totals", "epochgate-cluster")


class Planted(NamedTuple):
    """A text of the rules, and what stands in its place."""

    what: str
    right: str
    wrong: str


PLANTED = (
    Planted(
        "max for sum: members of one replica",
        "sum by (namespace, job, group, protocol) (epochgate_group_members)",
        "max by (namespace, job, group, protocol) (epochgate_group_members)",
    ),
    Planted(
        "sum for max: what the broker says, added up over replicas",
        "max by (namespace, job, group, type) (epochgate_group_broker_members)",
        "sum by (namespace, job, group, type) (epochgate_group_broker_members)",
    ),
    Planted(
        "a sum of facts: a group counts once a replica",
        "(max by (namespace, job, group, mode) (epochgate_group_mode))",
        "(sum by (namespace, job, group, mode) (epochgate_group_mode))",
    ),
    Planted(
        "min for max: members past the proxies by one replica's own",
        "sum by (namespace, job, group) (epochgate:group_members:sum),",
        "min by (namespace, job, group) (sum by (namespace, job, instance, group) (epochgate_group_members)),",
    ),
    Planted(
        "a protocol left out: members past the proxies without native ones",
        "sum by (namespace, job, group) (epochgate:group_members:sum),",
        'sum by (namespace, job, group) (epochgate:group_members:sum{protocol!="consumer"}),',
    ),
    Planted(
        "a protocol too many: all of a group that moves are migrated",
        'sum by (namespace, job, group) (epochgate:group_broker_members:max{type="consumer"})',
        "sum by (namespace, job, group) (epochgate:group_broker_members:max)",
    ),
    Planted(
        "migrated of all members, and not of those that can be",
        "/ (sum by (namespace, job) (epochgate:group_migrating_members) > 0)",
        "/ (sum by (namespace, job) (epochgate:group_members:sum) > 0)",
    ),
    Planted(
        "max for sum: states of members by one replica",
        "sum by (namespace, job, protocol, state) (epochgate_members)",
        "max by (namespace, job, protocol, state) (epochgate_members)",
    ),
    Planted(
        "sum for max: two exporters added up",
        "max by (namespace, job, type, protocol, member_type)",
        "sum by (namespace, job, type, protocol, member_type)",
    ),
    Planted(
        "a type for a protocol: classic members of groups of the new type are migrated",
        'cluster_members:max{protocol="consumer",member_type="consumer"}',
        'cluster_members:max{type="consumer"}',
    ),
    Planted(
        "a type left out: the cluster's groups without classic ones",
        "(epochgate_cluster_groups and",
        '(epochgate_cluster_groups{type!="classic"} and',
    ),
)


def prefix(number: int) -> str:
    """Return what the recorded names of a planted set begin with."""
    return f"planted{number}:"


def rules(text: str | None = None) -> dict[str, Any]:
    """Return the recording rules of the chart, and each planted set of them under names of its own."""
    text = RULES.read_text(encoding="utf-8") if text is None else text
    groups = _recording(text)
    for number, planted in enumerate(PLANTED):
        assert text.count(planted.right) == 1, planted
        wrong = text.replace(planted.right, planted.wrong).replace("epochgate:", prefix(number))
        groups += [one | {"name": f"{prefix(number)}{one['name']}"} for one in _recording(wrong)]
    return {"groups": groups}


def _recording(text: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load(text)["groups"] if one["name"] in _TOTALS]
