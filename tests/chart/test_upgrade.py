"""An upgrade from the chart before this one: its values work, and no resource gets another name.

``before/`` has the values of that chart, without comments. To be renewed with each release of the chart.
"""

import shutil
from pathlib import Path

import pytest

from tools.chart import render

pytestmark = pytest.mark.usefixtures("helm")

BEFORE = Path(__file__).parent / "before" / "values.yaml"
NEW_ONES_OFF = (
    "verticalPodAutoscaler.enabled=false,metrics.podMonitor.enabled=false,exporter.enabled=false,"
    "preflight.enabled=false,preflight.hook=false,installCheck.enabled=false"
)
"""What came after it, has defaults of its own, and so needs `--reset-then-reuse-values`."""
WITHOUT_JOURNAL = "journal.to=none"
"""The default of the chart before, which those keep who reuse its values."""
SELECTOR = {
    "app.kubernetes.io/name": "epochgate",
    "app.kubernetes.io/instance": "epochgate",
    "app.kubernetes.io/component": "proxy",
}
NAMES = {
    ("ConfigMap", "epochgate-config"),
    ("ConfigMap", "epochgate-policy"),
    ("CronJob", "epochgate-readiness"),
    ("CronJob", "epochgate-report"),
    ("Deployment", "epochgate"),
    ("PersistentVolumeClaim", "epochgate-journal"),
    ("PodDisruptionBudget", "epochgate"),
    ("Service", "epochgate-admin"),
    ("Service", "epochgate-kafka"),
    ("ServiceAccount", "epochgate"),
}
"""Kinds and names that the chart before gave to the variant `pipeline`, without hooks."""


@pytest.fixture(scope="module")
def reusing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This chart with the values of the chart before, as `helm upgrade --reuse-values` uses them."""
    chart = tmp_path_factory.mktemp("upgrade") / "epochgate"
    shutil.copytree(render.CHART, chart)
    shutil.copy(BEFORE, chart / "values.yaml")
    return chart


@pytest.mark.parametrize("variant", render.variants())
def test_it_needs_no_value_that_the_chart_before_did_not_have(variant: str, reusing: Path) -> None:
    values = ["--values", str(render.CI / f"{variant}-values.yaml"), "--set", NEW_ONES_OFF]
    reused = render.helm("template", "epochgate", str(reusing), "--namespace", "kafka", *values)
    names_a_journal = "\njournal:" in (render.CI / f"{variant}-values.yaml").read_text()
    ours = render.ci(
        variant, "--set", NEW_ONES_OFF if names_a_journal else f"{NEW_ONES_OFF},{WITHOUT_JOURNAL}"
    )
    without_hooks = [
        [at for at in render.documents(one) if "helm.sh/hook" not in at["metadata"].get("annotations", {})]
        for one in (reused, ours)
    ]
    assert without_hooks[0] == without_hooks[1], "and each new value is by itself what it is by default"


def test_no_resource_gets_another_name() -> None:
    manifests = render.documents(render.ci("pipeline", "--no-hooks"))
    names = {(at["kind"], at["metadata"]["name"]) for at in manifests}
    assert names >= NAMES, "a Service that is made anew gets another address"


def test_what_kubernetes_lets_nobody_change_is_as_it_was() -> None:
    manifests = render.documents(render.ci("pipeline"))
    assert render.one(manifests, "Deployment", "epochgate")["spec"]["selector"] == {"matchLabels": SELECTOR}
    assert render.one(manifests, "PersistentVolumeClaim", "epochgate-journal")["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "shared",
        "resources": {"requests": {"storage": "20Gi"}},
    }
