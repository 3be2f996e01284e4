"""Counts the function calls and processor time that one request costs the proxy's thread.

`python -m benchmarks.path [--show] [--several]`. The proxy runs in this process and a client in another thread; the
coordinator is its own process. ``own`` are the calls that the project's functions make, also of the interpreter's: they
are the same on every machine and in every run, so a change shows at once. ``calls`` has trio's too. On a busy machine
the epoll loop returns to trio more often, so the fewest of several batches are returned. ``--show`` prints the
functions. ``--several`` makes the proxy one of several processes (`sole_process: false`), which does more at each
heartbeat.
"""

import argparse
import cProfile
import json
import os
import pstats
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from benchmarks.latency import heartbeat_of_new_member, small_request
from benchmarks.lib.in_process import serve
from benchmarks.lib.wire import ClassicMember, Line
from proxy.config.schema import Log
from proxy.runtime.log_setup import configure

ROUNDS = 2000
COUNTED = 200
BATCHES = 5
PROJECT = str(Path(__file__).resolve().parents[1])


def measure(*, show: bool = False, several: bool = False) -> dict[str, Any]:
    """Return calls and microseconds of the proxy's thread for each kind of request."""
    found: dict[str, Any] = {}
    thread = threading.get_native_id()
    serve(lambda address: _client(address, thread, found, show), sole_process=not several)
    return found


def _client(address: str, thread: int, found: dict[str, Any], show: bool) -> None:
    # Made when it is their turn: meanwhile a member's session would end, and an idle connection be closed.
    kinds: dict[str, Callable[[], Callable[[], None]]] = {
        "heartbeat": lambda: heartbeat_of_new_member(address, ClassicMember, "translated-path", "path"),
        "passing_heartbeat": lambda: heartbeat_of_new_member(address, ClassicMember, "passing-path", "path"),
        "request": lambda: small_request(Line(address), "path"),
    }
    for name, make in kinds.items():
        exchange = make()
        for _ in range(ROUNDS // 2):
            exchange()
        before = _used_us(thread)
        for _ in range(ROUNDS):
            exchange()
        used = (_used_us(thread) - before) / ROUNDS
        batches = [_profiled(exchange) for _ in range(BATCHES)]
        fewest = min(batches, key=_calls)
        found[name] = {
            "calls": round(_calls(fewest) / COUNTED),
            "own": round(min(map(_own_calls, batches)) / COUNTED),
            "cpu_us": round(used, 1),
        }
        if show:
            fewest.sort_stats("calls").print_stats(300)


def _profiled(exchange: Callable[[], None]) -> pstats.Stats:
    profile = cProfile.Profile()
    trio.from_thread.run_sync(profile.enable)
    for _ in range(COUNTED):
        exchange()
    trio.from_thread.run_sync(profile.disable)
    return pstats.Stats(profile, stream=sys.stderr)


def _calls(statistics: pstats.Stats) -> int:
    return int(statistics.total_calls)  # type: ignore[attr-defined]  # typeshed leaves it out


def _used_us(thread: int) -> float:
    return int(Path(f"/proc/{os.getpid()}/task/{thread}/schedstat").read_text().split()[0]) / 1e3


def _own_calls(statistics: pstats.Stats) -> int:
    """Return how many calls the functions of the project make."""
    return sum(
        calls
        for *_, callers in statistics.stats.values()  # type: ignore[attr-defined]  # typeshed leaves it out
        for (file, *_), (_, calls, *_) in callers.items()
        if file.startswith(PROJECT) and "site-packages" not in file
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.path", description=__doc__)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--several", action="store_true")
    options = parser.parse_args()
    configure(Log(level="error"))
    print(json.dumps(measure(show=options.show, several=options.several), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
