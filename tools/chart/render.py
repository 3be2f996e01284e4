"""Renders the chart's manifests with ``helm template``."""

import subprocess
from typing import Any

import yaml

from tools.chart.binaries import ROOT, binary

CHART = ROOT / "charts" / "epochgate"
CI = CHART / "ci"
GOLDEN_FILES = ROOT / "tests" / "chart" / "golden"
GOLDEN = ("minimal", "production", "per-broker", "gateway", "one-port", "pipeline", "fleet", "preflight")
"""Variants whose manifests are kept, so that a change to the chart shows what it changes."""

Manifest = dict[str, Any]


class HelmError(Exception):
    """helm failed; the message is its output."""


def variants() -> list[str]:
    """Return the names of all ``ci/*-values.yaml``."""
    return sorted(file.name.removesuffix("-values.yaml") for file in CI.glob("*-values.yaml"))


def ci(variant: str, *arguments: str) -> str:
    """Render the manifests of one of them."""
    return template("-f", str(CI / f"{variant}-values.yaml"), *arguments)


def golden(variant: str) -> str:
    """Render the same without parts that are files of their own: rules, dashboard, the test's program."""
    files = "metrics.prometheusRule.enabled=false,metrics.dashboard.enabled=false"
    return ci(variant, "--skip-tests", "--set", files)


def template(*arguments: str) -> str:
    """Run ``helm template`` for a release ``epochgate`` in the namespace ``kafka``.

    :raises HelmError: it failed.
    """
    return helm("template", "epochgate", str(CHART), "--namespace", "kafka", *arguments)


def helm(*arguments: str, feed: str | None = None) -> str:
    """Run helm, with ``feed`` as its input, and return its output.

    :raises HelmError: it failed.
    """
    done = subprocess.run(
        [str(binary("helm")), *arguments], check=False, capture_output=True, text=True, input=feed
    )
    if done.returncode:
        raise HelmError(done.stdout + done.stderr)
    return done.stdout


def documents(manifests: str) -> list[Manifest]:
    """Return the manifests one by one."""
    return [document for document in yaml.safe_load_all(manifests) if document]


def one(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    """Return the manifest of this kind and name."""
    (found,) = [at for at in manifests if (at["kind"], at["metadata"]["name"]) == (kind, name)]
    return found
