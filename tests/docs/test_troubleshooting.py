"""The troubleshooting page: a runbook for each alert, and no metric or log line that the code does not have."""

import re
from pathlib import Path

import yaml

from proxy.metrics.registry import Metrics

ROOT = Path(__file__).parents[2]
RULES = ROOT / "charts" / "epochgate" / "files" / "rules.yaml"
PAGE = ROOT / "docs" / "how-to" / "troubleshooting.md"
WATCH = ROOT / "docs" / "how-to" / "watch.md"
REPOSITORY = "https://github.com/epochgate/epochgate/blob/main/"

TEXT = PAGE.read_text(encoding="utf-8")
ALERTS = {
    rule["alert"]: rule["annotations"]
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
    if "alert" in rule
}


def test_each_alert_has_a_runbook_and_each_runbook_an_alert():
    assert re.findall(r"^### (\w+)$", TEXT.split("\n## Runbooks\n")[1], re.MULTILINE) == list(ALERTS)


def test_each_runbook_says_what_the_alert_means_where_to_look_and_what_to_do():
    for section in TEXT.split("\n## Runbooks\n")[1].split("\n### ")[1:]:
        assert re.findall(r"^\*\*(\w+)\*\*", section, re.MULTILINE) == ["Means", "Look", "Do"], section


def test_the_list_of_alerts_is_whole():
    assert sorted(
        re.findall(r"^\| (Epochgate\w+) \|", WATCH.read_text(encoding="utf-8"), re.MULTILINE)
    ) == sorted(ALERTS)


def test_an_alert_links_its_runbook():
    page = REPOSITORY + PAGE.relative_to(ROOT).as_posix()
    assert {alert: annotations["runbook_url"] for alert, annotations in ALERTS.items()} == {
        alert: f"{page}#{alert.lower()}" for alert in ALERTS
    }


def test_each_metric_of_the_page_exists():
    metrics = {described.name for described in Metrics().table}
    named = set(re.findall(r"`(epochgate_\w+)", TEXT))
    assert named
    assert named <= metrics, sorted(named - metrics)


def test_each_log_line_of_the_page_is_in_the_code():
    code = "".join(
        file.read_text(encoding="utf-8")
        for room in ("proxy", "translation")
        for file in (ROOT / room).rglob("*.py")
    )
    lines = re.findall(r"log line,? `([^`]+)`", TEXT)
    assert lines
    assert [line for line in lines if f'"{line}"' not in code] == []
