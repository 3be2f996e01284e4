"""`make dist`: what is in sdist and wheel, and that the wheel runs in an environment that has nothing else."""

import email
import hashlib
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.skips import Need, without
from tools import dist
from tools.dist import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = ("protocol_codecs", "translation", "coordinator", "hosting", "proxy", "pipeline")
REPOSITORY_ONLY = {"tests", "benchmarks", "tools", "docs", "charts"}
TIMEOUT_S = 200


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The sdist and the wheel of this tree."""
    sdist, wheel = dist.build(tmp_path_factory.mktemp("dist"))
    return sdist, wheel


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """The folder of programs of a new environment with the wheel and the locked packages that it needs."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    locked = [
        *pip,
        "--require-hashes",
        "--only-binary",
        ":all:",
        "-r",
        str(ROOT / "requirements" / "image.lock"),
    ]
    done = subprocess.run(locked, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = f"the locked packages can't be had: {done.stderr.strip()[-300:]}"
        without(Need.TOOLS, reason)
    wheel = [*pip, "--no-index", f"epochgate[demo] @ {built[1].as_uri()}"]
    subprocess.run(wheel, check=True)
    return folder / "bin"


def run(program: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program away from this tree, with nothing of this environment."""
    return subprocess.run(
        [program, *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def tracked() -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


def in_wheel(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def test_the_wheel_has_every_file_of_the_packages_and_no_other(built):
    _, wheel = built
    assert {name for name in in_wheel(wheel) if ".dist-info/" not in name} == tracked()


def test_the_sdist_has_the_packages_and_nothing_of_the_repository_only(built):
    with tarfile.open(built[0]) as sdist:
        files = {name.partition("/")[2] for name in sdist.getnames()}
    assert tracked() | {"README.md", "LICENSE", "pyproject.toml"} <= files
    assert not {Path(name).parts[0] for name in files if name} & REPOSITORY_ONLY


def test_the_sdist_makes_the_same_wheel(built, tmp_path):
    sdist, wheel = built
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", tmp_path, sdist], check=True)
    (again,) = tmp_path.iterdir()
    assert again.name == wheel.name
    assert in_wheel(again) == in_wheel(wheel)


def test_the_metadata_are_those_of_the_project(built):
    (name,) = [name for name in in_wheel(built[1]) if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(in_wheel(built[1])[name])
    assert metadata["Version"] == PROJECT["version"]
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["License-Expression"] == "Apache-2.0"


def test_the_checksums_are_those_of_the_files(built):
    lines = (built[0].parent / "SHA256SUMS").read_text().splitlines()
    assert lines == [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in built]


def test_the_wheel_says_its_version(installed, tmp_path):
    done = run(installed / "epochgate", "version", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"epochgate {PROJECT['version']}\n"), done.stderr


def test_the_pages_of_the_admin_port_are_in_the_wheel(installed, tmp_path):
    program = "from proxy.admin.status_page import page_routes; print(len(page_routes(None, None)))"
    done = run(installed / "python", "-c", program, folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr


def test_the_demo_runs_from_the_wheel(installed, tmp_path):
    short = ("--plain", "--pause", "0", "--work", "0.1", "--rate", "50", "--partitions", "6")
    done = run(installed / "epochgate", "demo", *short, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"PASSED: both groups read all [1-9]\d* records", done.stdout), done.stdout


@pytest.mark.parametrize("package", ["pyspark", "trustme", "pytest", "mkdocs"])
def test_extras_that_were_not_asked_for_are_not_installed(installed, tmp_path, package):
    assert run(installed / "python", "-c", f"import {package}", folder=tmp_path).returncode == 1
