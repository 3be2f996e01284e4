"""Runs several command lines of `epochgate pipeline` in one process, which costs one JVM.

They come as a JSON list on standard input, and a JSON list with exit code and output of each is printed. Each has a
Spark session of its own, as by hand.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from typer.testing import CliRunner

from proxy.cli import command_line
from tests.pipeline.command_line import SETTINGS


class Said(NamedTuple):
    """How a command ended."""

    code: int
    output: str


def run(commands: Sequence[Sequence[object]], settings: Mapping[str, str] | None = None) -> list[Said]:
    """How these commands end, one after another, with these settings of Spark's."""
    conf = SETTINGS | dict(settings or {})
    options = ["--master", "local[2]", *(f"--conf={name}={value}" for name, value in conf.items())]
    lines = [["pipeline", *map(str, command), *options] for command in commands]
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.several_commands"],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [Said(*one) for one in json.loads(done.stdout.splitlines()[-1])]


def main() -> None:
    """Run the commands of standard input."""
    answers = [CliRunner().invoke(command_line(), line) for line in json.load(sys.stdin)]
    print(json.dumps([(one.exit_code, one.output + repr(one.exception or "")) for one in answers]))


if __name__ == "__main__":
    main()
