"""Counts what each hot path costs, in numbers that neither the machine nor its load changes.

`python -m benchmarks.counts [--show PATH] [--several] [--record]`. A client, the proxy and an embedded broker run in
one thread, so that they take turns in one order. Of many exchanges the one with the fewest calls counts: a timer of the
proxy that comes due in one of them, or bytes that come in more parts, only add to it. ``--show`` prints the calls of
the last one in their order. ``--several`` makes the proxy one of several processes (`sole_process: false`).
``--record`` keeps the counts in docs/evidence/counts.json, for ``python -m tools.recorded_tables``.

``path_bounds.toml`` has the most that each count may be; ``tests/tools/test_counts.py`` holds them. Not counted:
context switches, which depend on whatever else runs (wake-ups are their part that is the proxy's own), and
instructions, for which virtual machines mostly have no counters.
"""

import argparse
import gc
import json
import platform
import struct
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import trio
import trio.testing

from benchmarks.lib.call_counter import ROOT, Call, CallCounter
from benchmarks.lib.test_bed import POLICY
from benchmarks.lib.wire import ClassicMember, Line, coordinator, small_request_frame
from coordinator.broker import EmbeddedCluster, serve
from coordinator.config import CoordinatorConfig
from protocol_codecs import ApiKey
from protocol_codecs.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from protocol_codecs.messages.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from protocol_codecs.record_batch import Record, RecordBatch, encode_batch
from proxy.config.loader import parse_policy
from proxy.config.schema import Address, Admin, Config, Listener, Log, Upstream
from proxy.runtime.log_setup import configure
from proxy.server.process import make_translator
from proxy.server.server import Server
from proxy.transport import epoll
from tools.counts_table import RUNS
from tools.kafka.ports import LOOPBACK
from tools.recorded import of_code

BOUNDS = Path(__file__).with_name("path_bounds.toml")
MIB = 2**20
_WARM_UP, _COUNTED = 6, 6
_TOPIC = "counts"
_SIZE = struct.Struct(">i")


class Counts(NamedTuple):
    """What one exchange costs; ``fetch`` and ``produce`` move a body of one MiB in it.

    ``calls`` are those that code of ours makes, ``before_writes`` those of them that the bytes for the broker or the
    client wait for. ``garbage``: objects that only the garbage collector frees.
    """

    calls: int
    before_writes: int
    allocations: int
    system_calls: int
    wake_ups: int
    garbage: int


Rooms = dict[str, tuple[int, int]]


class HotPath(NamedTuple):
    """A request that is sent again and again on a connection."""

    line: Line
    frame: bytes


def measure(*, several: bool = False, show: str | None = None) -> dict[str, tuple[Counts, Rooms]]:
    """Return the counts of each path, and who makes its calls; ``show`` prints the calls of one of them."""
    found: dict[str, tuple[Counts, Rooms]] = {}
    with (
        mock.patch.object(epoll, "MAX_TRIO_DELAY_S", 0.0),
        _gc_off(),
    ):  # client and broker share the proxy's thread
        trio.run(_measure, found, several, show)
    return found


async def _measure(found: dict[str, tuple[Counts, Rooms]], several: bool, show: str | None) -> None:
    cluster = EmbeddedCluster(
        auto_create_partitions=1, coordinator=CoordinatorConfig(classic_initial_rebalance_delay_ms=0)
    )
    counter = CallCounter()
    async with serve(cluster):
        cluster.create_topic(_TOPIC, partitions=1)
        host, _, port = cluster.bootstrap.rpartition(":")
        config = Config(
            upstream=Upstream(bootstrap=(str(Address(host, int(port))),)),
            listeners=(Listener(bind=LOOPBACK, port=0, advertised_host=LOOPBACK, nodes={"0-2": 0}),),
            admin=Admin(bind=LOOPBACK, port=0),
            sole_process=not several,
        )
        policy = parse_policy("the benchmark's", POLICY)
        server = Server(config, make_translator(config, policy), policy=policy)
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            address = f"{LOOPBACK}:{server.ports.listeners[0].port}"
            for name, make in PATHS.items():
                path = await trio.to_thread.run_sync(make, address)
                with path.line:
                    found[name] = await _counted(path, counter)
                    if name == show:
                        _print(counter.calls)
            server.stop()


async def _counted(path: HotPath, counter: CallCounter) -> tuple[Counts, Rooms]:
    path.line.socket.settimeout(0)
    for _ in range(_WARM_UP):
        await _exchange(path)
    garbage = await _garbage(path)
    rooms = {}
    for _ in range(_COUNTED):
        counter.reset()
        with counter.running():
            await _exchange(path)
        calls, before = counter.calls, counter.before_writes
        counts = Counts(
            len(calls), len(before), counter.allocations, counter.system_calls, counter.wake_ups, garbage
        )
        rooms[counts] = _rooms(before, calls)
    fewest = min(rooms)
    return fewest, rooms[fewest]


def _rooms(before: Sequence[Call], calls: Sequence[Call]) -> Rooms:
    """Return how many calls the code of each folder makes: those that bytes wait for, and all."""
    waited = Counter(_room(call) for call in before)
    return {room: (waited[room], n) for room, n in Counter(map(_room, calls)).items()}


def _room(call: Call) -> str:
    first, second, *_ = Path(call.file).parts
    return f"{first}/{second}" if first == "proxy" else first


async def _garbage(path: HotPath) -> int:
    """Return how many objects each exchange leaves to the garbage collector."""
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(_COUNTED):
            await _exchange(path)
        gc.collect()
        return len(gc.garbage) // _COUNTED
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


async def _exchange(path: HotPath) -> None:
    """Send the request and read the whole answer; then let everybody finish what follows from it."""
    sock, view = path.line.socket, memoryview(path.frame)
    while view:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
    missing, head = _SIZE.size, b""
    while missing:
        await trio.lowlevel.wait_readable(sock)
        data = sock.recv(MIB)
        if not data:
            raise ConnectionError("closed within an answer")
        if not head:
            head = data
            missing = _SIZE.size + _SIZE.unpack_from(head)[0]
        missing -= len(data)
    await trio.testing.wait_all_tasks_blocked()


def _print(calls: list[Call]) -> None:
    for call in calls:
        print(f"{'  ' * call.depth}{call.name}  ({call.file}, {call.caller})", file=sys.stderr)


@contextmanager
def _gc_off() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _heartbeat(group: str) -> Callable[[str], HotPath]:
    def make(address: str) -> HotPath:
        line = Line(coordinator(address, group))
        member = ClassicMember(line, group, _TOPIC)
        member.join()
        member.settle()
        return HotPath(line, member.heartbeat_frame())

    return make


def _request(address: str) -> HotPath:
    line = Line(coordinator(address, _TOPIC))
    return HotPath(line, small_request_frame(line.client_id, _TOPIC))


def _produce(address: str) -> HotPath:
    batch = encode_batch(RecordBatch((Record(None, bytes(MIB)),)))
    partition = ProduceRequestPartition(index=0, records=batch)
    message = ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=(ProduceRequestTopic(name=_TOPIC, partition_data=(partition,)),)
    )
    line = Line(coordinator(address, _TOPIC))
    line.exchange(
        small_request_frame(line.client_id, _TOPIC)
    )  # the first frame of a connection may not be large
    return HotPath(line, line.frame(ApiKey.PRODUCE, 8, message))


def _fetch(address: str) -> HotPath:
    """What :func:`_produce` has written is there."""
    partition = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB)
    message = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=(FetchRequestTopic(topic=_TOPIC, partitions=(partition,)),)
    )
    line = Line(coordinator(address, _TOPIC))
    return HotPath(line, line.frame(ApiKey.FETCH, 11, message))


PATHS: dict[str, Callable[[str], HotPath]] = {
    "request": _request,
    "passed_heartbeat": _heartbeat("passed-counts"),
    "translated_heartbeat": _heartbeat("translated-counts"),
    "produce": _produce,
    "fetch": _fetch,
}


def too_many(found: Mapping[str, Counts], bounds: Mapping[str, Any]) -> list[str]:
    """Return what is above its bound, or has none."""
    return [
        f"{path}: {n} {name}, of which {bounds[path][name][0]} are allowed"
        for path, counts in found.items()
        for name, n in counts._asdict().items()
        if n > bounds[path][name][0]
    ]


def bounds() -> dict[str, Any]:
    """Read ``path_bounds.toml``: by path and count, the most that it may be and why."""
    return tomllib.loads(BOUNDS.read_text())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counts", description=__doc__)
    parser.add_argument("--show", choices=PATHS)
    parser.add_argument("--several", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    configure(Log(level="error"))
    measured = measure(several=options.several, show=options.show)
    counts = {path: counts for path, (counts, _) in measured.items()}
    print(json.dumps({path: one._asdict() for path, one in counts.items()}, indent=1))
    if options.record:
        RUNS.keep(
            {
                **of_code(ROOT),
                "python": platform.python_version(),
                "command": "python -m benchmarks.counts --record",
                "paths": {path: {**one._asdict(), "rooms": rooms} for path, (one, rooms) in measured.items()},
            }
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
