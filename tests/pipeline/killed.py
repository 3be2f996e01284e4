"""Commands of `epochgate pipeline` in which somebody is killed at a chosen call of a function, always the same one.

A process of its own runs them: ``python -m tests.pipeline.killed``, with what to do as JSON on standard input.
"""

import importlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from typer.testing import CliRunner

from tests.pipeline.command_line import SETTINGS

When = Literal["before", "during", "after"]
DRIVER, PYTHON, ASLEEP = "driver", "python", "asleep"
"""Who is killed: Python and its JVM, or Python alone, whose JVM ends a little later. Else it is one process of others,
by words that are all in its command line.

With ``ASLEEP`` the driver is not killed: it stands still until `wake`.
"""
MISSED = 77
"""The exit code if a command ends and nobody was killed: it did not come to the point, or there was nobody."""
_LOOK_S = 0.002
_TOLD_AT_ONCE = {"spark.ui.liveUpdate.period": "0"}
"""By default Spark tells of running tasks every 100 ms, so of short ones never."""


class Point(NamedTuple):
    """A call of a function of the pipeline's, the first one is 1; ``during``: while a task of Spark's runs in it."""

    function: str
    """``module:name`` or ``module:class.name``."""
    call: int
    when: When


def started(
    struck: Sequence[tuple[Point, Sequence[object]]],
    log: Path,
    victim: str | Sequence[str] = DRIVER,
    settings: Mapping[str, str] | None = None,
    master: str = "local[2]",
) -> subprocess.Popen[bytes]:
    """Start commands, one after another, in a process group of their own. What they say goes to ``log``.

    The process writes the exit codes to a file beside it, with the name that `codes` knows.
    """
    conf = SETTINGS | _TOLD_AT_ONCE | dict(settings or {})
    options = ["--master", master, *(f"--conf={name}={value}" for name, value in conf.items())]
    commands = [(point, ["pipeline", *map(str, line), *options]) for point, line in struck]
    with tempfile.TemporaryFile() as given, log.open("ab") as output:
        given.write(
            json.dumps({"victim": victim, "commands": commands, "codes": str(_codes_of(log))}).encode()
        )
        given.seek(0)
        return subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.killed"],
            stdin=given,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        )


def codes(log: Path) -> list[int]:
    """How the commands that wrote this log have ended."""
    found: list[int] = json.loads(_codes_of(log).read_text())
    return found


def kill(
    point: Point,
    command: Sequence[object],
    log: Path,
    victim: str = DRIVER,
    settings: Mapping[str, str] | None = None,
) -> None:
    """Run a command until its driver is killed there."""
    process = started([(point, command)], log, victim, settings)
    code = ended(process)
    assert code == -signal.SIGKILL, f"{point}: ended with {code}: {log.read_text(errors='replace')[-3000:]}"


def fall_asleep(
    point: Point, command: Sequence[object], log: Path, settings: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Run a command until it stands still there."""
    process = started([(point, command)], log, ASLEEP, settings)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), log.read_text(errors="replace")[-3000:]
    return process


def wake(process: subprocess.Popen[bytes]) -> None:
    """Let it go on to its end."""
    os.killpg(process.pid, signal.SIGCONT)
    ended(process)


def ended(process: subprocess.Popen[bytes], within_s: float = 600) -> int:
    """Wait for it; return its exit code. It does not outlive this."""
    try:
        return process.wait(within_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def processes(words: Sequence[str]) -> list[int]:
    """The ids of the processes whose command lines have all of these words."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = one.read_bytes()
        except OSError:  # it has ended
            continue
        if all(word.encode() in line for word in words):
            found.append(int(one.parent.name))
    return sorted(found)


def install(point: Point, strike: Callable[[], None]) -> None:
    """Have the function strike at that call."""
    module, _, path = point.function.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for one in outer:
        owner = getattr(owner, one)
    original = getattr(owner, name)
    calls = itertools.count(1)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        if next(calls) != point.call:
            return original(*arguments, **named)
        if point.when == "before":
            strike()
        if point.when == "during":
            threading.Thread(target=_strike_in_the_middle, args=[strike], daemon=True).start()
        result = original(*arguments, **named)
        if point.when == "after":
            strike()
        return result

    setattr(owner, name, wrapped)


def _strike_in_the_middle(strike: Callable[[], None]) -> None:
    from pyspark import SparkContext  # noqa: PLC0415 - the command brings it

    context = SparkContext.getOrCreate()
    tracker = context.statusTracker()
    while True:
        for stage in tracker.getActiveStageIds():
            about = tracker.getStageInfo(stage)
            if about is not None and about.numActiveTasks > 0:
                strike()
                return
        time.sleep(_LOOK_S)


def _codes_of(log: Path) -> Path:
    return log.with_name(f"{log.name}.codes")


def _strike(victim: str | list[str]) -> None:
    match victim:
        case "driver":
            os.killpg(0, signal.SIGKILL)
        case "asleep":
            os.killpg(0, signal.SIGSTOP)
        case "python":
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            os.kill(processes(victim)[0], signal.SIGKILL)


def main() -> None:
    """Run the commands of standard input; each is struck once."""
    from proxy.cli import command_line  # noqa: PLC0415 - not for those who only start this

    given = json.load(sys.stdin)
    answers = []
    for point, line in given["commands"]:
        struck = threading.Event()

        def strike(struck: threading.Event = struck) -> None:
            _strike(given["victim"])
            struck.set()

        install(Point(*point), strike)
        said = CliRunner().invoke(command_line(), line)
        print(said.output, repr(said.exception or ""), flush=True)
        answers.append(said.exit_code if struck.is_set() else MISSED)
    Path(given["codes"]).write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
