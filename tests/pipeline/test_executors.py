"""What Spark's executors import: the modules whose functions run there, and nothing of the proxy."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import pipeline

ROOM = Path(pipeline.__file__).parent
ALLOWED = {
    "audit",
    "pipeline",
    "protocol_codecs",
    *("msgspec", "crc32c", "pyarrow", "numpy", "pandas", "pyspark", "py4j"),
    *("typing_extensions", "cython_runtime", "dateutil", "six", "pytz"),  # what those bring
    "yaml",  # of the policy files, which readiness.job writes on the driver
}


def modules() -> list[str]:
    files = sorted(ROOM.rglob("*.py"))
    return [
        ".".join(file.relative_to(ROOM.parent).with_suffix("").parts).removesuffix(".__init__")
        for file in files
    ]


def on_executors() -> list[str]:
    """Modules that hand a function of theirs to Spark, which pickles it by the name of its module."""
    return [
        name
        for name in modules()
        for file in [ROOM.parent.joinpath(*name.split("."))]
        for source in [file.with_suffix(".py") if file.with_suffix(".py").exists() else file / "__init__.py"]
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in {"mapInArrow", "mapInPandas", "applyInPandas"}
    ]


def imported_by(*names: str) -> set[str]:
    """The packages that a new interpreter has after importing these modules, the standard library's left out."""
    program = (
        "import importlib, json, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "found = {name.partition('.')[0] for name in sys.modules}\n"
        "own = {name for name in found if not name.startswith('_') and name not in sys.stdlib_module_names}\n"
        "print(json.dumps(sorted(own)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", sorted(set(on_executors())))
def test_a_module_that_runs_on_executors_imports_only_what_they_need(module):
    assert imported_by(module) - ALLOWED == set()


def test_there_are_modules_that_run_on_executors():
    assert {"pipeline.readiness.content", "pipeline.journal.events", "pipeline.audit.job"} <= set(
        on_executors()
    )


def test_no_module_of_the_pipeline_imports_what_the_proxy_runs_on():
    """Not even its commands, which share exit codes and options with the proxy's; but a stream serves metrics, too."""
    found = imported_by(*modules())
    assert "typer" in found, "the commands are among them"
    assert not found & {"trio", "hypercorn", "starlette", "structlog", "translation"}
