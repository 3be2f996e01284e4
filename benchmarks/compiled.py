"""Measures what compiling the request path with mypyc gains (``python -m tools.compiled``, which is built before).

``python -m benchmarks.compiled`` prints it; with ``--record`` it takes the place of the run of the same Python in
docs/evidence/compiled.json, from which ``python -m tools.recorded_tables`` makes a table. In each round:

- a proxy of the plain and one of the compiled form, in front of one embedded coordinator: processor time until it is
  ready, its memory, and, in turns, its processor time for each kind of request;
- the same of a Heartbeat with the client in the proxy's process (benchmarks/path.py), and the interpreter's calls;
- the simulation of the translation.

What ran while other processes used much of a core is repeated.
"""

import argparse
import contextlib
import json
import os
import platform
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.latency import heartbeat_of_new_member, small_request
from benchmarks.lib.embedded import embedded
from benchmarks.lib.test_bed import BUILD, Gateway, cpu_s, resident_bytes
from benchmarks.lib.wire import ClassicMember, Line
from tools import compiled, compiled_table
from tools.dist import ROOT

ROUNDS = 11
SEEDS = 60
BATCH, BATCHES, WARM_UP = 500, 8, 2
KINDS = {"heartbeat": "translated", "passing_heartbeat": "passing", "request": ""}
"""What is sent, and how the names of its groups begin, by which the policy decides."""
ROOMS = ("protocol_codecs", "translation", "proxy")
"""Their bytecode is written before a start is measured, as pip does when it installs."""
MOST_OF_OTHERS = 0.2
"""The part of a core that other processes may use in a round that counts."""
_Found = dict[str, dict[str, float]]
_TICKS_S = os.sysconf("SC_CLK_TCK")


class _InFolder(Gateway):
    """A proxy that runs from another folder's code."""

    code: Path

    def command(self, config: Path) -> list[str]:
        return ["env", "-C", str(self.code), *super().command(config)]


@contextlib.contextmanager
def proxies_of(forms: Mapping[str, Path]) -> Iterator[dict[str, Gateway]]:
    """Start a proxy of each form in front of one embedded coordinator."""
    with embedded(1) as (bootstrap, _), contextlib.ExitStack() as stack:
        proxies: dict[str, Gateway] = {}
        for form, folder in forms.items():
            proxies[form] = proxy = _InFolder(bootstrap, BUILD / "bench" / f"compiled-{form}")
            proxy.code = folder
            proxy.start()
            stack.callback(proxy.stop)
        yield proxies


def start(forms: Mapping[str, Path]) -> _Found:
    """Return the milliseconds of processor time until a proxy is ready, and its memory then."""
    with proxies_of(forms) as proxies:
        return {
            form: {
                "start_ms": round(proxy.cpu_s() * 1e3),
                "rest_mib": round(resident_bytes(proxy.process.pid) / 2**20, 1),
            }
            for form, proxy in proxies.items()
        }


def exchanges(kind: str, forms: Mapping[str, Path]) -> _Found:
    """Return each proxy's microseconds of processor time for an exchange; the proxies take turns."""
    used = dict.fromkeys(forms, 0.0)
    with proxies_of(forms) as proxies:
        ways = {form: _exchange(kind, proxy.bootstrap) for form, proxy in proxies.items()}
        for batch in range(WARM_UP + BATCHES):
            for form, exchange in ways.items():
                before = proxies[form].cpu_s()
                for _ in range(BATCH):
                    exchange()
                if batch >= WARM_UP:
                    used[form] += proxies[form].cpu_s() - before
    return {form: {kind: round(seconds / BATCHES / BATCH * 1e6, 1)} for form, seconds in used.items()}


def in_process(forms: Mapping[str, Path]) -> _Found:
    """Return what benchmarks/path.py finds of a translated Heartbeat."""
    found: _Found = {}
    for form, folder in forms.items():
        heartbeat = json.loads(_run(folder, "benchmarks.path"))["heartbeat"]
        found[form] = {"in_process": heartbeat["cpu_us"], "calls": heartbeat["calls"]}
    return found


def _exchange(kind: str, address: str) -> Callable[[], None]:
    if kind == "request":
        return small_request(Line(address), "compiled")
    return heartbeat_of_new_member(
        address, ClassicMember, f"{KINDS[kind]}-compiled-{uuid4().hex[:8]}", "compiled"
    )


def simulate(forms: Mapping[str, Path]) -> _Found:
    """Return the seeds of the simulation in a minute of processor time."""
    found: _Found = {}
    for form, folder in forms.items():
        before = _own_s()
        _run(folder, "tests.simulation", "--seeds", str(SEEDS), "--jobs", "1")
        found[form] = {"seeds": round(SEEDS / (_own_s() - before) * 60)}
    return found


def _run(folder: Path, *module: str) -> bytes:
    return subprocess.run([sys.executable, "-m", *module], cwd=folder, check=True, capture_output=True).stdout


def _own_s() -> float:
    """Return the processor time of this process and of all that it has started."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return cpu_s(os.getpid()) + ended.ru_utime + ended.ru_stime


def _busy_s() -> float:
    """Return the processor time of all processes, and what the host took."""
    user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(rest)) / _TICKS_S


def in_quiet(work: Callable[[], _Found]) -> tuple[_Found, float]:
    """Return what ``work`` found when others used little, and the part of a core that they used then."""
    while True:
        began, busy, own = time.monotonic(), _busy_s(), _own_s()
        found = work()
        others = (_busy_s() - busy - _own_s() + own) / (time.monotonic() - began)
        print(found, f"others used {others:.2f} of a core", flush=True)
        if others <= MOST_OF_OTHERS:
            return found, others


def run(forms: Mapping[str, Path], rounds: int) -> Iterator[dict[str, Any]]:
    """Yield after each round the values of each form, and the most of a core that others used meanwhile."""
    by_kind = [partial(exchanges, kind) for kind in KINDS]
    parts: list[Callable[[Mapping[str, Path]], _Found]] = [start, *by_kind, in_process, simulate]
    values: dict[str, dict[str, list[float]]] = {form: {} for form in forms}
    most = 0.0
    for n in range(rounds):
        turns = dict(list(forms.items())[:: 1 if n % 2 else -1])
        for part in parts:
            found, others = in_quiet(partial(part, turns))
            most = max(most, others)
            for form, one in found.items():
                for what, value in one.items():
                    values[form].setdefault(what, []).append(value)
        yield {"others": round(most, 2), **values}


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
    }
    for found in run({"plain": ROOT, "compiled": folder}, options.rounds):
        if options.record:
            compiled_table.RUNS.keep(entry | found)
    print(compiled_table.table(entry | found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
