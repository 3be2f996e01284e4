"""The commands and files of a page, in their order.

A block of `console` has commands, each after `$ `. A block whose first line is a comment with a path is a file. A
command before which the page has `<!-- until: TEXT -->` is to be repeated until its output has that text.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^([ ]*)(?:<!-- until: (.+?) -->\n\s*)?```(\w+)\n(.*?)^\s*```", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"# ([\w./-]+\.\w+)\n")


@dataclass(frozen=True)
class Command:
    """A command line without prompt and comment; its continuation lines are joined."""

    line: str
    until: str | None = None


@dataclass(frozen=True)
class File:
    """A file that the reader is to write."""

    name: str
    text: str


def pages() -> list[Path]:
    """The README and every page of Tutorial and How-to, as paths in the repository."""
    found = [*(ROOT / "docs" / "tutorial").glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")]
    return [Path("README.md"), *(page.relative_to(ROOT) for page in sorted(found))]


def steps(page: Path) -> list[Command | File]:
    """What a reader of the page does, in this order."""
    return list(_steps((ROOT / page).read_text(encoding="utf-8")))


def commands(page: Path) -> list[str]:
    """The command lines of the page."""
    return [step.line for step in steps(page) if isinstance(step, Command)]


def output(
    line: str, folder: Path, environment: Mapping[str, str], timeout_s: float | None = None
) -> tuple[int, str]:
    """The exit code of a line and what it printed, with its lines joined: a terminal breaks them anywhere."""
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def _steps(text: str) -> Iterator[Command | File]:
    for indent, until, language, body in _BLOCK.findall(text):
        block = re.sub(rf"^{indent}", "", body, flags=re.MULTILINE)
        if language == "console":
            joined = re.sub(r"\\\n\s*", "", block)
            for line in re.findall(r"^\$ (.*)$", joined, re.MULTILINE):
                yield Command(re.sub(r"\s{2,}# .*$", "", line).strip(), until or None)
        elif name := _NAME.match(block):
            yield File(name[1], block)


@cache
def make_plans(target: str) -> str:
    """Return what make would run for a target; a target that it does not know is an error."""
    command = ["make", "--dry-run", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
