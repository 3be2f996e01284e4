"""Each alert fires in the scenario made for it, and in no other: told to Prometheus' own promtool."""

import json
import subprocess
from pathlib import Path

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
    "epochgate_unowned_partitions": "0x3 2x5 0x22",
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
    "EpochgatePartitionsUnowned": {"epochgate_unowned_partitions": "0x3 2x30"},
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
        'epochgate_kafka_process_crashes_total{process="member log"}': "7x3 10x30",
    },
    "EpochgateJournalLosesEvents": {'epochgate_journal_events_lost_total{sink="files"}': "12x8 400x30"},
}


def scenario(firing: str | None, changes: dict[str, str]) -> dict[str, object]:
    series = [{"series": name, "values": values} for name, values in (HEALTHY | changes).items()]
    for one in series:
        name, _, labels = one["series"].partition("{")
        one["series"] = f'{name}{{instance="proxy-0"{"," + labels if labels else "}"}'
    expected = [] if firing is None else [{"labels": f'{{alertname="{firing}"}}', "value": 1}]
    question = 'count by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "name": firing or "healthy",
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [{"expr": question, "eval_time": DURING, "exp_samples": expected}],
    }


def test_each_alert_has_a_scenario():
    groups = yaml.safe_load(RULES.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert {rule["alert"] for rule in rules} == SCENARIOS.keys()
    assert all(rule["annotations"].keys() == {"summary", "description", "runbook_url"} for rule in rules)


@pytest.mark.parametrize("firing", [None, *SCENARIOS], ids=str)
def test_an_alert_fires_in_its_scenario_and_no_other_does(firing, promtool, tmp_path):
    tests = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [scenario(firing, SCENARIOS.get(firing, {}))],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(tests))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


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
    for panel in json.loads((FILES / "dashboard.json").read_text())["panels"]:
        used |= {name for target in panel.get("targets", ()) for name in names_in(target["expr"])}
    assert used
    assert used <= known, sorted(used - known)
