"""Metrics, configuration keys, alerts and make targets that the documentation names exist."""

import importlib.util
import re
from pathlib import Path

import pytest
import yaml

from pipeline.progress.metrics import NAMES as METRICS_OF_PROGRESS
from proxy.exporter.families import OWN_METRICS
from proxy.metrics.registry import Metrics

from . import pages

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    ]
)
SECTIONS = "upstream|listeners|admin|limits|versions|metrics|visibility|journal|drain|log"

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def text_of(page):
    return page.read_text(encoding="utf-8")


@each_page
def test_each_metric_exists(page):
    metrics = {described.name for described in Metrics().table} | set(OWN_METRICS) | METRICS_OF_PROGRESS
    named = set(re.findall(r"\b(epochgate_[a-z_]+[a-z])(?![a-z_]*[/.*])", text_of(page)))
    series = re.compile(r"_(bucket|count|sum)$")
    assert {name for name in named if series.sub("", name) not in metrics and name not in metrics} == set()


@each_page
def test_each_recorded_series_exists(page):
    rules = yaml.safe_load(text_of(ROOT / "charts" / "epochgate" / "files" / "rules.yaml"))
    recorded = {rule["record"] for group in rules["groups"] for rule in group["rules"] if "record" in rule}
    assert set(re.findall(r"\b(epochgate:[a-z_:]+[a-z])", text_of(page))) - recorded == set()


@each_page
def test_each_configuration_key_exists(page):
    described = text_of(ROOT / "docs" / "reference" / "configuration.md")
    keys = set(re.findall(r"^\| `([\w.\[\]]+)` \|", described, re.MULTILINE))
    sections = {key.rpartition(".")[0] for key in keys}
    named = set(re.findall(rf"`((?:{SECTIONS})(?:\[\])?\.(?!py`)[a-z_.\[\]]+)`", text_of(page)))
    assert keys
    assert named - keys - sections == set()


@each_page
def test_each_alert_exists(page):
    rules = yaml.safe_load(text_of(ROOT / "charts" / "epochgate" / "files" / "rules.yaml"))
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule}
    assert set(re.findall(r"\b(Epochgate[A-Z]\w+)", text_of(page))) - alerts == set()


@each_page
def test_each_make_target_exists(page):
    """Also of a pattern, such as bench-%: make plans what it would run, and the modules are there."""
    for target in set(re.findall(r"(?:`|\$ )make ([a-z][a-z-]+)", text_of(page))):
        modules = re.findall(r"python -m ((?:benchmarks|tests|tools)[\w.]*)", pages.make_plans(target))
        assert all(importlib.util.find_spec(one) for one in modules), modules
