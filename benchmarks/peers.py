"""`make bench-peers`: Epochgate beside Kroxylicious, grepplabs' kafka-proxy and HAProxy, before one broker and in turn.

``python -m benchmarks.peers`` measures what each costs (15 minutes), ``--saturation`` what each takes at most (8
minutes). With ``--record`` it takes the place of the run before in docs/evidence/peers.json, from which ``python -m
tools.recorded_tables`` makes tables.

Each proxy has one core, the last of the machine; Epochgate with two workers has two. All run, and one at a time has
something to do: in each round each has its turn, and another one begins. A turn begins when other processes use less
than a fifth of a core; one in which they used more is counted as not quiet. What is added to a request is the
difference to the same request straight at the broker, which takes turns with it.

A proxy that can't be had here is skipped with the reason. Programs that are there already are named by
``EPOCHGATE_KROXYLICIOUS`` (an unpacked release) and ``EPOCHGATE_KAFKA_PROXY``.
"""

import argparse
import contextlib
import os
import platform
import select
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka.admin import AdminClient

from benchmarks import throughput
from benchmarks.latency import heartbeat_of_new_member, in_turn, leader, small_request
from benchmarks.lib.crowd import Connection
from benchmarks.lib.peers import DIRECT, Peer, Way, available
from benchmarks.lib.quiet import MOST, PATIENCE_S, Guard
from benchmarks.lib.test_bed import cpu_s, family, kafka, kafka_version, resident_bytes
from benchmarks.lib.wire import ClassicMember, Line, small_request_frame
from proxy.runtime.fd_limits import raise_file_limit
from tools import peers_table, recorded
from tools.kafka.cluster import Cluster

ROUNDS, ROUNDS_OF_SATURATION = 9, 3
STARTS = 3
EXCHANGES, WARM_UP = 1000, 200
RECORDS, BULK = 300_000, 500_000
CONNECTIONS = (200, 5000)
WARM_UP_S, WINDOW_S = 1.0, 3.0
MOST_OF_SMALL = 99
"""The percentile of a small client's requests beside a bulk one."""
_MB = throughput.RECORD / 1e6
_Found = dict[str, float]
_Values = dict[str, dict[str, list[float]]]


class Bench:
    """The broker that all are in front of, and its topics."""

    def __init__(self, cluster: Cluster, records: int) -> None:
        self.bootstrap = cluster.bootstrap
        self.records = records
        self.topics = throughput.new_topics(cluster.bootstrap, records)

    def costs(self, way: Way, turn: int) -> _Found:
        """Return what requests, Heartbeats and records cost by one way."""
        found: _Found = {}
        name = f"{uuid4().hex[:8]}"
        if way.pid is not None:
            kinds: dict[str, Callable[[str], Callable[[], None]]] = {
                "request": lambda bootstrap: small_request(Line(leader(bootstrap)), self.topics["consume"]),
                "passing": partial(self._heartbeat, f"passing-{name}"),
            }
            if way.translates:
                kinds["translated"] = partial(self._heartbeat, f"translated-{name}")
            for kind, exchange in kinds.items():
                found |= self._exchanges(kind, way, exchange, turn)
        for what, measure in (("consume", "consumer"), ("produce", "producer")):
            gb, before = self.records * _MB / 1000, _used(way)
            took = throughput.apart(what, way.bootstrap, self.topics[what], self.records)
            found[f"{measure}_mb_s"] = gb * 1000 / took
            if way.pid is not None:
                found[f"{measure}_cpu_s_per_gb"] = (_used(way) - before) / gb
        return found

    def _heartbeat(self, group: str, bootstrap: str) -> Callable[[], None]:
        # Straight at the broker nothing translates, whatever the group is called: there it is a classic member's.
        group = f"{'straight-' if bootstrap == self.bootstrap else ''}{group}"
        return heartbeat_of_new_member(bootstrap, ClassicMember, group, self.topics["consume"])

    def _exchanges(
        self, kind: str, way: Way, exchange: Callable[[str], Callable[[], None]], turn: int
    ) -> _Found:
        ways = {False: exchange(self.bootstrap), True: exchange(way.bootstrap)}
        order = dict(list(ways.items())[:: 1 if turn % 2 else -1])  # who comes later finds colder caches
        before = _used(way)
        times = in_turn(order, EXCHANGES, WARM_UP)
        used = (_used(way) - before) / (EXCHANGES + WARM_UP)
        straight, through = (statistics.median(times[through]) for through in (False, True))
        return {
            f"{kind}_straight_us": straight,
            f"{kind}_added_us": through - straight,
            f"{kind}_cpu_us": used * 1e6,
        }

    def saturated(self, way: Way, _turn: int) -> _Found:
        """Return what one way takes at most, and how long a small client waits beside a bulk one."""
        found: _Found = {}
        for count in CONNECTIONS:
            rate, closed = requests_per_s(way, count, self.topics["consume"])
            found |= {f"requests_s_{count}": rate, f"closed_of_{count}": closed}
        read = partial(throughput.apart, "consume", way.bootstrap, self.topics["consume"], self.records)
        with ThreadPoolExecutor(2) as two:
            found["two_consumers_mb_s"] = sum(
                self.records * _MB / took
                for took in [one.result() for one in [two.submit(read), two.submit(read)]]
            )
            exchange = small_request(Line(leader(way.bootstrap)), self.topics["consume"])
            alone = in_turn({"": exchange}, EXCHANGES, WARM_UP)[""]
            beside: list[tuple[float, float]] = []
            bulk = two.submit(read)
            while not bulk.done():
                began = time.perf_counter()
                exchange()
                beside.append((began, (time.perf_counter() - began) * 1e6))
            reads_since = time.perf_counter() - bulk.result()
        found["small_alone_p99_us"] = _p99(alone)
        found["small_beside_bulk_p99_us"] = _p99([took for began, took in beside if began >= reads_since])
        return found


def requests_per_s(way: Way, count: int, topic: str) -> tuple[float, int]:
    """Return how many requests of 100 bytes are answered a second if so many connections have one in flight each.

    Each connection has a client id of its own; all come from one address. Also returns how many the other side closed.
    """
    host, _, port = leader(way.bootstrap).rpartition(":")
    answers = 0
    with contextlib.ExitStack() as stack:
        epoll = stack.enter_context(select.epoll())
        connections: dict[int, Connection] = {}

        def send(connection: Connection, frame: bytes) -> None:
            def answered(_: bytes) -> None:
                nonlocal answers
                answers += 1
                connection.send(frame, answered)

            connection.send(frame, answered)

        for n in range(count):
            connection = Connection((host, int(port)))
            stack.callback(connection.socket.close)
            connections[connection.socket.fileno()] = connection
            epoll.register(connection.socket, select.EPOLLIN)
            send(connection, small_request_frame(f"{n}-", topic))
        for seconds in (WARM_UP_S, WINDOW_S):
            began, answers = time.perf_counter(), 0
            while (took := time.perf_counter() - began) < seconds:
                for descriptor, _ in epoll.poll(seconds - took):
                    if not connections[descriptor].is_open_after_reading():
                        epoll.unregister(connections.pop(descriptor).socket)
        return answers / took, count - len(connections)


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[MOST_OF_SMALL - 1]


def _used(way: Way) -> float:
    return 0.0 if way.pid is None else cpu_s(way.pid)


def starts(peers: Mapping[str, Peer], cluster: Cluster, values: _Values, guard: Guard) -> None:
    """Start each proxy some times: the seconds until it accepts connections, and its memory then."""
    for turn in range(STARTS):
        guard.wait()
        for name in turned(list(peers), turn):
            with peers[name].started(cluster) as way:
                keep(values, name, {"start_s": way.start_s, "rest_mib": _resident_mib(way)})


def _resident_mib(way: Way) -> float:
    return sum(map(resident_bytes, family(way.pid or 0))) / 2**20


def rounds(
    work: Callable[[Way, int], _Found], ways: Mapping[str, Way], count: int, guard: Guard
) -> Iterator[_Values]:
    """Yield all values after each round; ``not_quiet`` is 1 for a turn in which other processes used much."""
    values: _Values = {}
    for turn in range(count):
        for name in turned(list(ways), turn):
            found, others = guard.measured(partial(work, ways[name], turn))
            keep(values, name, found | {"not_quiet": float(others >= MOST)})
            shown = ", ".join(f"{what} {value:.4g}" for what, value in found.items())
            print(f"{turn + 1}/{count} {name}: {shown}, others {others:.2f}", flush=True)
        yield values


def turned(names: list[str], turn: int) -> list[str]:
    """Return the names with another one first in each turn."""
    first = turn % len(names)
    return names[first:] + names[:first]


def keep(values: _Values, name: str, found: _Found) -> None:
    """Append what was found by one way."""
    for what, value in found.items():
        values.setdefault(name, {}).setdefault(what, []).append(round(value, 4))


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--saturation", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument(
        "--patience", type=float, default=PATIENCE_S, metavar="SECONDS", help="for a quiet machine"
    )
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    raise_file_limit()
    peers, skipped, listeners = available()
    for name, reason in skipped.items():
        print(f"skipped: {name}: {reason}", flush=True)
    entry: dict[str, Any] = {
        **recorded.of_code(Path(__file__).parents[1]),
        "kind": "saturation" if options.saturation else "cost",
        "command": shlex.join(["python", "-m", "benchmarks.peers", *sys.argv[1:]]),
        "machine": f"{os.cpu_count()} processors, Linux {platform.release()}, Python {platform.python_version()}",
        "kafka": kafka_version(),
        "versions": {name: peer.version for name, peer in peers.items()},
        "skipped": skipped,
    }
    guard, values = Guard(options.patience), _Values()
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(kafka(*listeners))
        if not options.saturation:
            starts(peers, cluster, values, guard)
        ways = {DIRECT: Way(cluster.bootstrap)}
        ways |= {name: stack.enter_context(peer.started(cluster)) for name, peer in peers.items()}
        for way in ways.values():  # Kroxylicious closes the first connections, until it knows the brokers
            AdminClient({"bootstrap.servers": way.bootstrap}).list_topics(timeout=30)
        bench = Bench(cluster, BULK if options.saturation else RECORDS)
        work = bench.saturated if options.saturation else bench.costs
        for way in ways.values() if not options.saturation else ():  # compilers and caches are warm after it
            work(way, 0)
        count = options.rounds or (ROUNDS_OF_SATURATION if options.saturation else ROUNDS)
        for found in rounds(work, ways, count, guard):
            entry["ways"] = {name: found[name] | values.get(name, {}) for name in ways}
            if options.record:
                peers_table.RUNS.keep(entry)
    print(peers_table.title(entry), peers_table.table(entry), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
