"""The exporter of lag in the chart: one pod, a configuration of its own, and nothing that touches the proxy's pods."""

import pytest

from proxy.config.loader import load_config
from tools.chart.render import HelmError, ci, documents, one

pytestmark = pytest.mark.usefixtures("helm")

ON = ("--set", "exporter.enabled=true")


def test_there_is_one_pod_also_during_a_rollout():
    spec = one(documents(ci("minimal", *ON)), "Deployment", "epochgate-exporter")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def test_its_configuration_is_good(tmp_path):
    manifests = documents(ci("fleet", "--set", "exporter.groups=web-.*,exporter.port=9999"))
    file = tmp_path / "epochgate.yaml"
    file.write_text(one(manifests, "ConfigMap", "epochgate-exporter")["data"]["epochgate.yaml"])
    settings = load_config(file, {}).exporter
    assert settings is not None
    assert (settings.bind, settings.port, settings.groups) == ("0.0.0.0", 9999, "web-.*")  # noqa: S104
    assert settings.names == ("kafka_exporter", "burrow")
    container = one(manifests, "Deployment", "epochgate-exporter")["spec"]["template"]["spec"]["containers"][
        0
    ]
    assert container["ports"] == [{"name": "exporter", "containerPort": 9999}]


def test_neither_the_proxys_services_nor_its_monitors_select_its_pod():
    manifests = documents(ci("fleet"))
    labels = one(manifests, "Deployment", "epochgate-exporter")["spec"]["template"]["metadata"]["labels"]
    for manifest in manifests:
        selector = manifest["spec"].get("selector", {}) if manifest["kind"] == "Service" else None
        if selector is not None and manifest["metadata"]["name"] != "epochgate-exporter":
            assert not selector.items() <= labels.items(), manifest["metadata"]["name"]
    monitor = one(manifests, "PodMonitor", "epochgate")["spec"]["selector"]["matchLabels"]
    assert not monitor.items() <= labels.items()


def test_switching_it_on_does_not_restart_the_proxy():
    without, with_it = (one(documents(ci("minimal", *more)), "Deployment", "epochgate") for more in ((), ON))
    assert without == with_it


def test_monitoring_is_let_in_and_nobody_else():
    allowed = 'networkPolicy.monitoring=[{"podSelector":{}}]'
    policy = one(documents(ci("fleet", "--set-json", allowed)), "NetworkPolicy", "epochgate-exporter")["spec"]
    assert policy["ingress"] == [
        {"ports": [{"port": 9308, "protocol": "TCP"}], "from": [{"podSelector": {}}]}
    ]
    assert one(documents(ci("fleet")), "NetworkPolicy", "epochgate-exporter")["spec"].get("ingress") is None


def test_it_is_refused_without_an_account():
    with pytest.raises(HelmError, match=r"set fleet\.enabled"):
        ci("minimal", *ON, "--set", "fleet.enabled=false")
