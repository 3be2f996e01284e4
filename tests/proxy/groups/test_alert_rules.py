"""Each alert fires in the scenario made for it, and in no other: told to Prometheus' own promtool."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.exporter.families import OWN_METRICS
from proxy.metrics.registry import Metrics

FILES = Path(__file__).parents[3] / "charts" / "epochgate" / "files"
RULES = FILES / "rules.yaml"
DURING = "15m"

HEALTHY = {
    "up": "1x30",
    "epochgate_ready": "1x30",
    'epochgate_tls_certificate_expiry_timestamp_seconds{where="listeners"}': "1814400x30",  # 21 days after 1970
    'epochgate_tls_is_current{where="listeners"}': "1x30",
    'epochgate_group_stuck{group="a"}': "0x30",
    "epochgate_policy_is_current": "1x30",
    "epochgate_unreachable_nodes": "0x30",
    'epochgate_proxy_to_server_errors_total{kind="unreachable"}': "7x30",
    "epochgate_hidden_nodes_total": "3x30",
    'epochgate_internal_errors_total{where="translation"}': "0x30",
    'epochgate_group_rebalances_total{group="a",protocol="classic"}': "100+2x30",
    'epochgate_group_members{group="a",protocol="classic"}': "4x30",
    'epochgate_answer_errors_total{api_key="HEARTBEAT",error_code="COORDINATOR_NOT_AVAILABLE"}': "5x30",
    'epochgate_answer_errors_total{api_key="HEARTBEAT",error_code="REBALANCE_IN_PROGRESS"}': "0+600x30",
    'epochgate_journal_events_lost_total{sink="files"}': "12x30",
    'epochgate_group_members{group="a",protocol="translated"}': "2x30",
    'epochgate_group_mode{group="a",mode="translate"}': "1x30",
    'epochgate_group_not_translatable{group="b",reason="assignor"}': "1x30",
    'epochgate_group_members{group="b",protocol="classic"}': "0x30",
    'epochgate_group_gates{say="harm"}': "0 1x5 0x30",
    'epochgate_group_moves{phase="held"}': "1x10 0x30",
    'epochgate_group_moves{phase="aborted"}': "0x30",
    'epochgate_group_moves{phase="to_approve"}': "0x30",
    'epochgate_group_moves{phase="awaiting"}': "1x30",
    'epochgate_proof_groups{verdict="violated"}': "0x30",
    "epochgate_proof_behind_seconds": "15x30",
    'epochgate_fleet_replicas{state="silent"}': "0 1x3 0x30",
    'epochgate_group_unowned_partitions{group="a"}': "0x3 2x5 0x22",
    "epochgate_fleet_log_away": "16 0x30",
    "epochgate_fleet_log_refused": "0x30",
    "epochgate_fleet_newest_record_age_seconds": "29 3 30 14 29x30",
    "epochgate_fleet_topic_settings_wrong": "0 1 0x30",
    'epochgate_kafka_process_crashes_total{process="member log"}': "7x3 9x30",
}
"""A proxy at work, with losses and errors that are long past."""

SCENARIOS = {
    "EpochgateDown": {"up": "1x5 0x30", "epochgate_ready": "1x5 _x30"},
    "EpochgateNotReady": {"epochgate_ready": "1x2 0x30"},
    "EpochgateGroupStuck": {'epochgate_group_stuck{group="a"}': "0x2 1x30"},
    "EpochgateConfigRefused": {"epochgate_config_is_current": "1x2 0x30"},
    "EpochgatePolicyRefused": {"epochgate_policy_is_current": "1x2 0x30"},
    "EpochgateCertificateExpires": {
        'epochgate_tls_certificate_expiry_timestamp_seconds{where="listeners"}': "1123200x30",  # 13 days
    },
    "EpochgateCertificateRefused": {'epochgate_tls_is_current{where="listeners"}': "1x2 0x30"},
    "EpochgateBrokerUnreachable": {"epochgate_unreachable_nodes": "0x2 1x30"},
    "EpochgateUpstreamErrors": {
        'epochgate_proxy_to_server_errors_total{kind="unreachable"}': "7+30x30",
    },
    "EpochgateNodesHidden": {"epochgate_hidden_nodes_total": "3x5 4x30"},
    "EpochgateInternalErrors": {'epochgate_internal_errors_total{where="translation"}': "0x8 1x30"},
    "EpochgateRebalancesPileUp": {
        'epochgate_group_rebalances_total{group="a",protocol="classic"}': "100+8x30",
    },
    "EpochgateAnswersErrors": {
        'epochgate_answer_errors_total{api_key="HEARTBEAT",error_code="COORDINATOR_NOT_AVAILABLE"}': "5+60x30",
    },
    "EpochgatePartitionsUnowned": {'epochgate_group_unowned_partitions{group="a"}': "0x3 2x30"},
    "EpochgateMemberLogAway": {
        "epochgate_fleet_log_away": "0x2 1x30",
        "epochgate_fleet_newest_record_age_seconds": "29+60x30",
    },
    "EpochgateMemberLogRefused": {
        "epochgate_fleet_log_away": "0x2 16x30",
        "epochgate_fleet_log_refused": "0x2 1x30",
        "epochgate_fleet_newest_record_age_seconds": "29+60x30",
    },
    "EpochgateMemberLogNotRead": {"epochgate_fleet_newest_record_age_seconds": "29x3 29+60x30"},
    "EpochgateMemberLogSettings": {"epochgate_fleet_topic_settings_wrong": "0x2 1x30"},
    "EpochgateKafkaClientCrashes": {
        'epochgate_kafka_process_crashes_total{process="member log"}': "7x5 10x30",
    },
    "EpochgateTwoOwners": {'epochgate_proof_groups{verdict="violated"}': "0x3 1x30"},
    "EpochgateHarmLasts": {'epochgate_group_gates{say="harm"}': "0 1x30"},
    "EpochgateMoveWaits": {'epochgate_group_moves{phase="to_approve"}': "1x30"},
    "EpochgateProofBehind": {"epochgate_proof_behind_seconds": "15+120x30"},
    "EpochgateMembersElsewhere": {'epochgate_group_broker_members{group="a",type="classic"}': "99x30"},
    "EpochgateReplicaSilent": {'epochgate_fleet_replicas{state="silent"}': "1x30"},
    "EpochgateClientNotTranslatable": {
        'epochgate_group_not_translatable{group="a",reason="assignor"}': "0x3 1x30",
    },
    "EpochgateJournalLosesEvents": {'epochgate_journal_events_lost_total{sink="files"}': "12x8 400x30"},
}


OF_THE_CLUSTER = frozenset(
    {
        "EpochgateTwoOwners", "EpochgateHarmLasts", "EpochgateMoveWaits", "EpochgateProofBehind",
        "EpochgateMembersElsewhere", "EpochgateReplicaSilent", "EpochgateClientNotTranslatable", "EpochgateGroupStuck",
        "EpochgatePartitionsUnowned",
    }
)  # fmt: skip
"""Alerts about a group or the whole cluster: one, however many replicas report it. The others are about a process."""

MISTAKES = {
    "EpochgateTwoOwners": (
        "max by (namespace, job) (epochgate_proof_g",
        "sum by (instance) (epochgate_proof_g",
    ),
    "EpochgateMembersElsewhere": (
        "epochgate:group_members_elsewhere > 0",
        "epochgate:group_members_elsewhere >= 0",
    ),
    "EpochgateMoveWaits": ('phase=~"held|aborted|to_approve"', 'phase=~"held|aborted|awaiting"'),
    "EpochgatePartitionsUnowned": (
        "max by (namespace, job, group) (epochgate_group_unowned_partitions) > 0",
        "epochgate_group_unowned_partitions > 0",
    ),
}
"""Wrong expressions, each of which a scenario finds."""


def members(group: str, kind: str, count: int) -> dict[str, str]:
    return {f'epochgate_group_broker_members{{group="{group}",type="{kind}"}}': f"{count}x30"}


def scenario(firing: str | None, changes: dict[str, str], replicas: int = 1) -> dict[str, Any]:
    """``changes`` hold at all replicas; each has members of its own, and the broker reports all of them."""
    values = (
        HEALTHY | members("a", "classic", 4 * replicas) | members("a", "consumer", 2 * replicas) | changes
    )
    times = replicas if firing and firing not in OF_THE_CLUSTER else 1
    return {
        "name": f"{firing or 'healthy'}, {replicas} replicas",
        "interval": "1m",
        "input_series": [one for number in range(replicas) for one in of_replica(values, f"proxy-{number}")],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": DURING,
                "exp_samples": [{"labels": f'{{alertname="{firing}"}}', "value": times}] if firing else [],
            }
        ],
    }


def of_replica(values: dict[str, str], instance: str) -> list[dict[str, str]]:
    series = []
    for one, shown in values.items():
        name, _, labels = one.partition("{")
        series.append(
            {"series": f'{name}{{instance="{instance}"{"," + labels if labels else "}"}', "values": shown}
        )
    return series


def promtool_finds(
    promtool: str, folder: Path, scenarios: list[dict[str, object]], rules: Path = RULES
) -> str:
    """What promtool finds wrong; empty: nothing."""
    file = folder / "test.yaml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": scenarios})
    )
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_each_alert_has_a_scenario():
    groups = yaml.safe_load(RULES.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert {rule["alert"] for rule in rules} == SCENARIOS.keys()
    assert all(rule["annotations"].keys() == {"summary", "description", "runbook_url"} for rule in rules)


@pytest.mark.parametrize("firing", [None, *SCENARIOS], ids=str)
def test_an_alert_fires_in_its_scenario_and_no_other_does(firing, promtool, tmp_path):
    scenarios = [scenario(firing, SCENARIOS.get(firing, {}), replicas) for replicas in (1, 2, 3)]
    assert promtool_finds(promtool, tmp_path, scenarios) == ""


REPLACED_AT, BACK_AT = 3, 4
"""Minutes after which a replica gives no metrics any more, and after which the one in its place gives some."""
LATER = {"EpochgateMoveWaits": "20m"}
"""It has to last for 15 minutes, which start over when the only replica is replaced."""
_MANY = re.compile(r"(_|-?\d+)(?:([+-]\d+))?x(\d+)")


def each_minute(values: str) -> list[str]:
    """The samples that promtool's notation stands for."""
    found = []
    for part in values.split():
        many = _MANY.fullmatch(part)
        if many is None:
            found.append(part)
        elif many[1] == "_":
            found += ["_"] * int(many[3])
        else:
            found += [str(int(many[1]) + number * int(many[2] or 0)) for number in range(int(many[3]) + 1)]
    return found


def replaced(series: list[dict[str, str]]) -> list[dict[str, str]]:
    """The series of a replica that ends, and of the one that comes in its place under another name."""
    found = []
    for one in series:
        samples = each_minute(one["values"])
        after = one["series"].replace('instance="', 'instance="next-', 1)
        found.append(one | {"values": " ".join([*samples[:REPLACED_AT], "stale"])})
        found.append({"series": after, "values": " ".join([*"_" * BACK_AT, *samples[BACK_AT:]])})
    return found


@pytest.mark.parametrize("firing", [None, *SCENARIOS], ids=str)
def test_an_alert_fires_although_a_replica_is_replaced(firing, promtool, tmp_path):
    scenarios = []
    for replicas in (1, 2, 3):
        made = scenario(firing, SCENARIOS.get(firing, {}), replicas)
        of_first = [one for one in made["input_series"] if 'instance="proxy-0"' in one["series"]]
        others = [one for one in made["input_series"] if one not in of_first]
        made["input_series"] = [*replaced(of_first), *others]
        (asked,) = made["promql_expr_test"]
        times = [LATER.get(firing, DURING)] if firing else ["5m", "10m", DURING]
        made["promql_expr_test"] = [asked | {"eval_time": time} for time in times]
        scenarios.append(made)
    assert promtool_finds(promtool, tmp_path, scenarios) == ""


@pytest.mark.parametrize("alert", SCENARIOS)
def test_an_alert_does_without_a_replica_of_a_version_that_lacks_its_metrics(alert, promtool, tmp_path):
    lacks = tuple(name.partition("{")[0] + "{" for name in SCENARIOS[alert])
    scenarios = []
    for firing in (alert, None):
        for replicas in (2, 3) if firing else (2,):
            made = scenario(firing, SCENARIOS[alert] if firing else {}, replicas)
            made["input_series"] = [
                one
                for one in made["input_series"]
                if 'instance="proxy-0"' not in one["series"] or not one["series"].startswith(lacks)
            ]
            for sample in made["promql_expr_test"][0]["exp_samples"]:
                sample["value"] = 1 if alert in OF_THE_CLUSTER else replicas - 1
            scenarios.append(made)
    assert promtool_finds(promtool, tmp_path, scenarios) == ""


def test_nothing_fires_while_a_replica_is_replaced_by_one_of_another_version(promtool, tmp_path):
    """The replaced replica is of a version without the newer metrics, and for a while its members are connected
    nowhere, so that the broker reports more of them than the replicas do."""
    calm = scenario(None, {}, 2)
    older = [
        one | {"values": "_x4"} if "proof" in one["series"] or "fleet_replicas" in one["series"] else one
        for one in of_replica(HEALTHY, "proxy-1")
    ]
    for one in older:
        if one["series"].startswith("epochgate_group_members"):
            one["values"] = one["values"].split("x")[0] + "x4 _x5 " + one["values"]
    calm["input_series"] = [one for one in calm["input_series"] if "proxy-1" not in one["series"]] + older
    assert promtool_finds(promtool, tmp_path, [calm]) == ""


@pytest.mark.parametrize("alert", MISTAKES)
def test_a_mistake_in_an_expression_is_found(alert, promtool, tmp_path):
    right, wrong = MISTAKES[alert]
    text = RULES.read_text()
    assert text.count(right) == 1
    rules = tmp_path / "rules.yaml"
    rules.write_text(text.replace(right, wrong))
    scenarios = [
        scenario(firing, SCENARIOS.get(firing, {}), replicas)
        for firing in (None, alert)
        for replicas in (1, 2)
    ]
    assert promtool_finds(promtool, tmp_path, scenarios, rules) != ""


def names_in(text: str) -> set[str]:
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())
    return {word for word in words if word.startswith("epochgate_")}


def test_rules_and_dashboard_use_metrics_that_there_are():
    metrics = Metrics()
    known = {one.name for one in metrics.table} | set(OWN_METRICS)
    for one in metrics.table:
        if one.kind in ("histogram", "summary"):
            known |= {f"{one.name}_{suffix}" for suffix in ("bucket", "count", "sum")}
    used = names_in(RULES.read_text())
    for dashboard in FILES.glob("dashboard*.json"):
        for panel in json.loads(dashboard.read_text())["panels"]:
            used |= {name for target in panel.get("targets", ()) for name in names_in(target["expr"])}
    assert used
    assert used <= known, sorted(used - known)
