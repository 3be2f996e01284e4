"""The benchmarks and tools start: most of them run only when somebody measures, and mypy does not see everything.

It does not know what packages without types have, nor which help of an option argparse cannot format.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    path
    for folder in ("benchmarks", "tools")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.stem != "__init__"
]


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _python(*arguments: str) -> None:
    answer = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr


def test_every_module_can_be_imported():
    _python("-c", "\n".join(f"import {_module(path)}" for path in FILES))


@pytest.mark.parametrize(
    "program", [_module(path) for path in FILES if "ArgumentParser(" in path.read_text(encoding="utf-8")]
)
def test_every_program_with_options_explains_itself(program):
    _python("-m", program, "--help")
