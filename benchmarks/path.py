"""Measures the processor time that one request costs the proxy's thread: `python -m benchmarks.path [--several]`.

The proxy runs in this process and a client in another thread; the coordinator is its own process. ``--several`` makes
the proxy one of several processes (`sole_process: false`), which does more at each heartbeat. The counts of the same
requests, which do not scatter, are those of ``benchmarks.counts``.
"""

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from benchmarks.latency import heartbeat_of_new_member, small_request
from benchmarks.lib.in_process import serve
from benchmarks.lib.wire import ClassicMember, Line
from proxy.config.schema import Log
from proxy.runtime.log_setup import configure

ROUNDS = 2000


def measure(*, several: bool = False) -> dict[str, float]:
    """Return the microseconds of the proxy's thread for each kind of request."""
    found: dict[str, float] = {}
    thread = threading.get_native_id()
    serve(lambda address: _client(address, thread, found), sole_process=not several)
    return found


def _client(address: str, thread: int, found: dict[str, float]) -> None:
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
        found[name] = round((_used_us(thread) - before) / ROUNDS, 1)


def _used_us(thread: int) -> float:
    return int(Path(f"/proc/{os.getpid()}/task/{thread}/schedstat").read_text().split()[0]) / 1e3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.path", description=__doc__)
    parser.add_argument("--several", action="store_true")
    options = parser.parse_args()
    configure(Log(level="error"))
    print(json.dumps(measure(several=options.several), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
