"""The Dockerfile: a linter's rules, and its own commands in folders of their own."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chart import image as dockerfile
from tests.chart.image import DOCKERFILE, Image
from tools.chart.binaries import ROOT
from tools.kafka.ports import free_ports

PACKAGES = ("protocol_codecs", "translation", "coordinator", "hosting", "proxy", "pipeline")


def run(image: Image, *command: str) -> subprocess.CompletedProcess[str]:
    found = image.prefix / "bin" / command[0]
    return subprocess.run(
        [str(found), *command[1:]], env=image.environment(), capture_output=True, text=True, check=False
    )


def test_hadolint_has_nothing_to_say():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([str(hadolint), str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_base_images_are_pinned_by_version_and_digest():
    versions = [one.text for one in dockerfile.instructions() if one.name == "ARG" and "_IMAGE=" in one.text]
    assert versions
    for version in versions:
        assert re.fullmatch(r"\w+_IMAGE=[\w./-]+:\d+\.\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}", version), version


def test_every_stage_names_the_arguments_that_it_uses():
    """BuildKit hands them on from the stage that FROM names, buildah does not."""
    everything = list(dockerfile.instructions())
    arguments = {one.text.partition("=")[0] for one in everything if one.name == "ARG"}
    stages = [one.text.split()[-1] for one in everything if one.name == "FROM"]
    used = 0
    for stage in stages:
        own = dockerfile.stage(stage)
        named = {one.text.partition("=")[0] for one in own if one.name == "ARG"}
        uses = {name for one in own for name in re.findall(r"\$\{?(\w+)", one.text)} & arguments
        assert uses <= named, stage
        used += len(uses)
    assert used


@pytest.mark.parametrize("target", ["epochgate", "pipeline"])
def test_the_process_is_nobody_special(target):
    (user,) = [one.text for one in dockerfile.stage(target) if one.name == "USER"]
    assert user == "10001:10001"


def test_only_what_the_image_needs_is_in_the_build_context():
    tops = {at.parts[0] for at in dockerfile.context()}
    assert tops == {*PACKAGES, "requirements", "tools", "pyproject.toml", "README.md", "LICENSE"}
    assert not [at for at in dockerfile.context() if at.suffix == ".pyc"]


def test_the_commands_install_the_entry_point(image):
    done = run(image, "epochgate", "--version")
    assert done.stdout.startswith("epochgate "), done.stderr


def test_every_file_of_the_packages_is_in_the_image(image):
    tracked = subprocess.run(
        ["git", "ls-files", "--", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    missing = [
        name for name in tracked if not (image.site_packages / name).exists() and (ROOT / name).exists()
    ]
    assert missing == []


def test_versions_are_the_lock_files_and_nothing_else_is_installed(image):
    locked = dict(
        re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / "image.lock").read_text(), re.MULTILINE)
    )
    code = (
        "import importlib.metadata as m, json; "
        "print(json.dumps({d.name.lower().replace('_', '-'): d.version for d in m.distributions()}))"
    )
    found = json.loads(run(image, "python", "-c", code).stdout)
    found.pop("epochgate")
    assert found == {name.replace("_", "-"): version for name, version in locked.items()}


def test_the_health_check_says_no_when_nothing_answers(image):
    done = subprocess.run(
        health_check(),
        env=image.environment(EPOCHGATE_ADMIN__PORT=str(free_ports(1)[0])),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1


def health_check() -> list[str]:
    """The command of HEALTHCHECK."""
    (check,) = [one for one in dockerfile.stage("epochgate") if one.name == "HEALTHCHECK"]
    return json.loads(check.text.removeprefix("CMD "))
