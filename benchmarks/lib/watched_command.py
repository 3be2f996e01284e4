"""Runs a command and tells what it cost: seconds, memory, CPU seconds of all its processes and by kind of thread."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOUND_ONE = 3
"""The exit code of an audit that found two owners at once."""
_LOOK_S = 0.5
THREADS = {
    "Executor task": "tasks",
    "C1 Compiler": "compiler",
    "C2 Compiler": "compiler",
    "GC Thread": "garbage",
    "G1 ": "garbage",
    "VM Thread": "garbage",
}
"""What threads of the JVM are for, by how their names begin (Linux knows 15 characters of a name)."""
PYTHON, REST = "Python", "driver and rest"


def watched(
    job: str, size: int, arguments: list[str], environment: Mapping[str, str], logs: Path, folder: Path = ROOT
) -> dict[str, Any]:
    """Return seconds, CPU seconds and memory of a command, and of all other processes started by this one.

    It runs in ``folder``, and what it prints goes to a file in ``logs``. Raises SystemExit if it fails; that the audit
    found a violation is no failure.
    """
    began, most, loads = time.monotonic(), 0, list[float]()
    worked, apart = dict[int, float](), dict[int, tuple[str, float]]()
    with (logs / f"{job.replace(' ', '-')}-{size}.log").open("wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log, cwd=folder, env=environment)
        while process.poll() is None:
            memory, cpu, threads = _use_of_children()
            most = max(most, memory)
            worked |= cpu
            apart |= threads
            loads.append(os.getloadavg()[0])
            seconds = time.monotonic() - began
            now = f"{seconds:.0f} s, {sum(worked.values()):.0f} CPU s, {memory // 1024:,} MiB, load {loads[-1]:.1f}"
            print(f"\r{job} of {size:,}: {now}   ", end="", file=sys.stderr)
            time.sleep(_LOOK_S)
    print(file=sys.stderr)
    if process.returncode not in (0, FOUND_ONE):
        raise SystemExit(f"{job} of {size:,} ended with {process.returncode}: see {log.name}")
    return {
        "job": job,
        "size": size,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_s": round(sum(worked.values()), 1),
        "memory_mib": most // 1024,
        "load": round(sum(loads) / len(loads), 1),
        "cpu_s_of": {
            kind: round(sum(seconds for of, seconds in apart.values() if of == kind), 1)
            for kind in (*dict.fromkeys(THREADS.values()), PYTHON, REST)
        },
    }


def _use_of_children() -> tuple[int, dict[int, float], dict[int, tuple[str, float]]]:
    """Return of all child processes the resident memory in KiB, and CPU seconds by process and by thread.

    Pages that processes share count in each. A thread's seconds come with its kind; what it did after it was last
    looked at is in those of its process only.
    """
    total, cpu, threads = 0, dict[int, float](), dict[int, tuple[str, float]]()
    waiting = _children(os.getpid())
    while waiting:
        one = waiting.pop()
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{one}/status").read_text()
            total += next(
                (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0
            )
            name, cpu[one] = _name_and_cpu_s(Path(f"/proc/{one}/stat"))
            waiting += _children(one)
            if name.startswith("python"):
                threads[one] = PYTHON, cpu[one]
                continue
            for thread in Path(f"/proc/{one}/task").iterdir():
                with contextlib.suppress(OSError):
                    of, seconds = _name_and_cpu_s(thread / "stat")
                    kind = next((kind for start, kind in THREADS.items() if of.startswith(start)), REST)
                    threads[int(thread.name)] = kind, seconds
    return total, cpu, threads


def _name_and_cpu_s(stat: Path) -> tuple[str, float]:
    name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
    fields = rest.split()
    return name, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]
