"""The chart as an artefact in a registry: pushed by the steps of the release, and what comes back is this chart."""

import os
import re
import subprocess
import tarfile
from pathlib import Path

import yaml

from tests.chart import registry
from tools.chart import render
from tools.chart.binaries import ROOT, binary

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"

COSIGN = """#!/bin/sh
echo "$@" >> "$SIGNED"
"""
"""Stands in for cosign, which needs the identity of a workflow."""


def push_step() -> str:
    """The commands with which the workflow pushes and signs the chart."""
    steps = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["chart"]["steps"]
    (script,) = [step["run"] for step in steps if "helm push" in step.get("run", "")]
    return script


def test_what_is_signed_is_what_was_pushed_and_installs_as_the_same_manifests(
    helm: Path, tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "helm").symlink_to(binary("helm"))
    (programs / "cosign").write_text(COSIGN)
    (programs / "cosign").chmod(0o755)
    (tmp_path / "charts").symlink_to(ROOT / "charts")
    version = re.search(r"^version: (.+)$", (render.CHART / "Chart.yaml").read_text(), re.MULTILINE)
    assert version is not None
    with registry.running() as running:
        environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "SIGNED": str(tmp_path / "signed"),
            "CHARTS": f"{running.host}/epochgate/charts",
            "VERSION": version[1],
        }
        script = push_step().replace("helm push", "helm push --plain-http")
        command = ["bash", "-eo", "pipefail", "-c", script]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        _kind, pushed = running.manifests[version[1]]
        chart = f"{running.host}/epochgate/charts/epochgate"
        signed = (tmp_path / "signed").read_text().split()
        assert signed == ["sign", "--yes", f"{chart}@{registry.digest(pushed)}"]

        values = str(render.CI / "production-values.yaml")
        arguments = ["epochgate", f"oci://{chart}", "--version", version[1], "--plain-http"]
        pulled = render.helm("template", *arguments, "--namespace", "kafka", "--values", values)
    assert pulled[pulled.index("---") :] == render.ci("production")


def test_the_chart_has_what_it_reads(helm: Path, tmp_path: Path) -> None:
    render.helm("package", str(render.CHART), "--destination", str(tmp_path))
    (package,) = tmp_path.glob("*.tgz")
    with tarfile.open(package) as archive:
        names = set(archive.getnames())
    for name in (
        "values.yaml",
        "values.schema.json",
        "README.md",
        "files/rules.yaml",
        "files/group_trial.py",
    ):
        assert f"epochgate/{name}" in names
