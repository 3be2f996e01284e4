"""Measures what compiling the request path with mypyc gains (``python -m tools.compiled``, which is built before).

``python -m benchmarks.compiled`` prints it; with ``--record`` it takes the place of the run of the same Python in
docs/evidence/compiled.json, from which ``python -m tools.recorded_tables`` makes a table. In each round the plain and
the compiled form take turns: processor time of the proxy's thread for each kind of request (benchmarks/path.py), then
processor time until a proxy is ready, and its memory. A round in which other processes used much of a core is repeated.
The first rounds also run the simulation of the translation.
"""

import argparse
import json
import os
import platform
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.lib.embedded import embedded
from benchmarks.lib.test_bed import BUILD, Gateway, resident_bytes
from tools import compiled, compiled_table
from tools.dist import ROOT

ROUNDS, SIMULATED_ROUNDS = 11, 3
SEEDS = 200
ROOMS = ("protocol_codecs", "translation", "proxy")
"""Their bytecode is written before a start is measured, as pip does when it installs."""
MOST_OF_OTHERS = 0.2
"""The part of a core that other processes may use in a round that counts."""
_TICKS_S = os.sysconf("SC_CLK_TCK")


class _InFolder(Gateway):
    """A proxy that runs from another folder's code."""

    code: Path

    def command(self, config: Path) -> list[str]:
        return ["env", "-C", str(self.code), *super().command(config)]


def measure(folder: Path, form: str) -> dict[str, float]:
    """Return microseconds of processor time by kind of request, and what a start takes."""
    path = json.loads(_run(folder, "benchmarks.path"))
    found = {kind: one["cpu_us"] for kind, one in path.items()}
    with embedded(1) as (bootstrap, _):
        proxy = _InFolder(bootstrap, BUILD / "bench" / f"compiled-{form}")
        proxy.code = folder
        proxy.start()
        found["start_ms"] = round(proxy.cpu_s() * 1e3)
        found["rest_mib"] = round(resident_bytes(proxy.process.pid) / 2**20, 1)
        proxy.stop()
    return found


def simulate(folder: Path) -> dict[str, float]:
    """Return the seeds of the simulation in a minute of processor time."""
    before = _own_s()
    _run(folder, "tests.simulation", "--seeds", str(SEEDS), "--jobs", "1")
    return {"seeds": round(SEEDS / (_own_s() - before) * 60)}


def _run(folder: Path, *module: str) -> bytes:
    return subprocess.run([sys.executable, "-m", *module], cwd=folder, check=True, capture_output=True).stdout


def _own_s() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _busy_s() -> float:
    """Return the processor time of all processes, and what the host took."""
    user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(rest)) / _TICKS_S


def run(forms: Mapping[str, Path], rounds: int) -> dict[str, Any]:
    """Return the values of each form, one for each round, and the most of a core that others used in one."""
    values: dict[str, dict[str, list[float]]] = {form: {} for form in forms}
    most, done = 0.0, 0
    while done < rounds:
        began, busy, own = time.monotonic(), _busy_s(), _own_s()
        turns = list(forms.items())[:: 1 if done % 2 else -1]
        found = {form: measure(folder, form) for form, folder in turns}
        if done < SIMULATED_ROUNDS:
            for form, folder in turns:
                found[form] |= simulate(folder)
        others = (_busy_s() - busy - _own_s() + own) / (time.monotonic() - began)
        print(f"round {done + 1}: {found}, others used {others:.2f} of a core", flush=True)
        if others > MOST_OF_OTHERS:
            continue
        most, done = max(most, others), done + 1
        for form, one in found.items():
            for what, value in one.items():
                values[form].setdefault(what, []).append(value)
    return {"others": round(most, 2), **values}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compiled", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--folder", type=Path, default=compiled.OUT)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    folder = options.folder.absolute()
    for code in (ROOT, folder):
        _run(code, "compileall", "-q", *ROOMS)
    entry = {
        **compiled.about(folder),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "command": shlex.join(["python", "-m", "benchmarks.compiled", *sys.argv[1:]]),
        **run({"plain": ROOT, "compiled": folder}, options.rounds),
    }
    print(compiled_table.table(entry))
    if options.record:
        compiled_table.RUNS.keep(entry)
    return 0


if __name__ == "__main__":
    sys.exit(main())
