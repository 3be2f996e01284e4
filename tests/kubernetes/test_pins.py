"""What stands in more than one place about the programs of a cluster."""

import re

import yaml

from tools.chart import render
from tools.chart.crds import PROMETHEUS_OPERATOR
from tools.kubernetes import binaries
from tools.kubernetes.paths import KUBERNETES
from tools.kubernetes.prometheus import install


def test_the_version_is_that_of_the_sources():
    pinned = re.findall(
        r"^\tk8s.io/kubernetes (\S+)", (binaries.SOURCES / "kubernetes/go.mod").read_text(), re.MULTILINE
    )
    assert pinned == [KUBERNETES]


def test_kubernetes_own_modules_are_those_of_the_same_release():
    replaced = re.findall(
        r"^\tk8s.io/\S+ => k8s.io/\S+ (\S+)$",
        (binaries.SOURCES / "kubernetes/go.mod").read_text(),
        re.MULTILINE,
    )
    assert len(replaced) > 20
    assert set(replaced) == {KUBERNETES.replace("v1.", "v0.")}


def test_every_module_pins_hashes_of_what_it_needs():
    for module in binaries.PROGRAMS:
        wants = "require" in (binaries.SOURCES / module / "go.mod").read_text()
        assert (binaries.SOURCES / module / "go.sum").exists() == wants, module


def test_the_operator_is_built_from_the_module_that_its_definitions_are_taken_from():
    sums = (binaries.SOURCES / "prometheus-operator/go.sum").read_text().splitlines()
    operator = PROMETHEUS_OPERATOR
    assert f"{operator.module} {operator.version} {operator.checksum}" in sums


def test_the_pods_of_prometheus_have_the_image_that_is_built():
    manifests = "".join((install.HERE / name).read_text() for name in ("operator.yaml", "prometheus.yaml"))
    assert set(re.findall(r"epochgate-prometheus:\S+", manifests)) == {install.IMAGE.rpartition("/")[2]}


def test_the_operator_is_told_the_version_of_the_prometheus_that_is_built():
    *_, prometheus = yaml.safe_load_all((install.HERE / "prometheus.yaml").read_text())
    go_mod = (binaries.SOURCES / "prometheus/go.mod").read_text()
    major, minor_and_patch = prometheus["spec"]["version"].split(".", 1)
    (module,) = re.findall(r"^require github.com/prometheus/prometheus (\S+)$", go_mod, re.MULTILINE)
    assert module == f"v0.{major}{minor_and_patch}"  # v0.313.5 is Prometheus 3.13.5


def test_prometheus_selects_what_the_chart_is_told_to_label():
    *_, prometheus = yaml.safe_load_all((install.HERE / "prometheus.yaml").read_text())
    for kind in ("serviceMonitor", "podMonitor", "rule"):
        assert prometheus["spec"][f"{kind}Selector"] == {"matchLabels": install.LABELS}
    metrics = yaml.safe_load((render.CI / "production-values.yaml").read_text())["metrics"]
    assert metrics["serviceMonitor"]["labels"] == metrics["prometheusRule"]["labels"] == install.LABELS
