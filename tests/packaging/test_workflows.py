"""The forge's workflows can't run here, but they are held to the forge's schema and to rules of safety."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from tools.dist import ROOT

FORGE = ROOT / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
CHECK = Path(sys.executable).with_name("check-jsonschema")

WRITES = {
    ("release", "packages"): {"id-token"},
    ("release", "image"): {"packages", "id-token"},
    ("release", "chart"): {"packages", "id-token"},
    ("release", "release"): {"contents", "id-token"},
}
"""The jobs that may write anything."""


def jobs():
    for file in WORKFLOWS:
        for name, job in yaml.safe_load(file.read_text())["jobs"].items():
            yield file.stem, name, job


def steps():
    for workflow, name, job in jobs():
        for number, step in enumerate(job.get("steps", ()), start=1):
            yield pytest.param(step, id=f"{workflow}-{name}-{number}")


def scripts():
    return [one for one in steps() if "run" in one.values[0]]


def test_there_are_workflows():
    assert [file.stem for file in WORKFLOWS] == ["ci", "nightly", "release"]


@pytest.mark.parametrize(
    ("schema", "files"),
    [("vendor.github-workflows", WORKFLOWS), ("vendor.dependabot", [FORGE / "dependabot.yml"])],
)
def test_they_are_what_the_forge_reads(schema, files):
    command = [str(CHECK), "--builtin-schema", schema, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_mistake_is_found(tmp_path):
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("runs-on:", "run-on:"))
    command = [str(CHECK), "--builtin-schema", "vendor.github-workflows", str(wrong)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


def test_actions_are_pinned_by_commit_and_say_their_version():
    pins = defaultdict(set)
    for file in WORKFLOWS:
        for action, pin in re.findall(r"uses: ([^\s@]+)(.*)", file.read_text()):
            if not action.startswith("./"):
                assert re.fullmatch(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+", pin), (file.name, action, pin)
                pins[action].add(pin)
    assert len(pins) > 3
    assert {action: found for action, found in pins.items() if len(found) > 1} == {}


def test_there_are_no_secrets():
    """What is published is signed with the identity of the workflow; the registry takes the token of the run."""
    for file in WORKFLOWS:
        assert "secrets" not in file.read_text()


def test_a_job_writes_only_where_it_must():
    for file in WORKFLOWS:
        assert yaml.safe_load(file.read_text())["permissions"] == {"contents": "read"}
    writes = {
        (workflow, name): {what for what, how in job.get("permissions", {}).items() if how != "read"}
        for workflow, name, job in jobs()
    }
    assert {job: what for job, what in writes.items() if what} == WRITES


def test_no_checkout_leaves_its_token_behind():
    for step in (one.values[0] for one in steps()):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("step", scripts())
def test_a_script_is_bash_and_no_expression_is_pasted_into_it(step):
    subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)
    assert "${{" not in step["run"], "names that somebody else chose would be run; hand them over in env"


def test_scripts_use_only_what_the_repository_has():
    text = "\n".join(one.values[0]["run"] for one in scripts())
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = set(re.findall(r"^make ([a-z-]+)", text, re.MULTILINE))
    assert called
    assert called <= targets
    paths = set(re.findall(r"(?:^|\s)((?:charts|tools|\.ci)/[\w./-]+)(?=\s|$)", text))
    assert {".ci/run", "charts/epochgate", "charts/epochgate/Chart.yaml"} <= paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_tests_of_a_release_are_those_of_every_change():
    release = {name: job for workflow, name, job in jobs() if workflow == "release"}
    assert release["test"]["uses"] == "./.github/workflows/ci.yml"
    publishing = {name for workflow, name in WRITES if name != "release"}
    assert all("test" in release[name]["needs"] for name in publishing)
    assert publishing <= set(release["release"]["needs"])


def test_everything_that_is_published_is_signed():
    text = (FORGE / "workflows" / "release.yml").read_text()
    for command in ("cosign sign --yes", "cosign attest --yes", "cosign sign-blob --yes"):
        assert command in text
