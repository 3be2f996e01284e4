"""A test that an item of docs/reference/kips names fails when the code does not do what the item says."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.kip_mutations import MUTATIONS, ROOT, Mutation, drawn, rows

COPIED = ("coordinator", "hosting", "pipeline", "protocol_codecs", "proxy", "tests", "tools", "translation")
SCENARIO = "tests/coordinator/test_against_kafka.py::test_kafka_did_the_same[{}]"
OPTIONS = ("-q", "-x", "-m", "not kafka", "-p", "no:cacheprovider", "--hypothesis-profile=unshrunk")
TESTS_FAILED = 1
"""The exit code of pytest; another one for tests that could not be collected."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code and the tests."""
    root = tmp_path_factory.mktemp("mutated")
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "node_modules")
    for name in COPIED:
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def test_the_items_are_those_that_are_drawn():
    assert sorted(mutation.item for mutation in MUTATIONS) == sorted(drawn())


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.item)
def test_a_mutation_changes_one_place(mutation: Mutation):
    assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.item)
def test_a_named_test_fails(mutation: Mutation, copy: Path):
    named = rows()[mutation.item]["tests"]
    ids = [f"tests/{name}" if "::" in name else SCENARIO.format(name) for name in named]
    file = copy / mutation.file
    code = file.read_text(encoding="utf-8")
    file.write_text(code.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *OPTIONS, *ids],
            cwd=copy,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        file.write_text(code, encoding="utf-8")

    assert done.returncode == TESTS_FAILED, done.stdout[-3000:] + done.stderr[-2000:]
