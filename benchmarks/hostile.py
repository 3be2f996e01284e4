"""What calls that are too large cost everybody else: an innocent member's Heartbeat and the proxy's memory meanwhile.

``python -m benchmarks.hostile [--bootstrap HOST:PORT] [--seconds N]``. Behind the proxy is a Kafka of its own, or the
cluster that is named. Each kind of call is sent by four connections of a process of its own, as fast as they are
answered, or as often as they are closed.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

from rich.console import Console
from rich.table import Table

from benchmarks.stand import BUILD, Gateway, kafka, resident_bytes
from benchmarks.wire import ClassicMember, Line, coordinator
from protocol_codecs import ApiKey, Message
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_subscription,
)
from protocol_codecs.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol_codecs.messages.metadata import MetadataRequest
from protocol_codecs.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol_codecs.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

REPORT = BUILD / "bench-hostile.json"
CONNECTIONS = 4
SECONDS = 10.0
_BEAT_EVERY_S = 0.02
_MIB = 1024 * 1024

Call = tuple[ApiKey, int, Message]


def _join(group: str, partitions: int) -> Call:
    owned = ConsumerProtocolTopicPartition(topic="t", partitions=tuple(range(partitions)))
    subscription = ConsumerProtocolSubscription(topics=("t",), owned_partitions=(owned,))
    protocol = JoinGroupRequestProtocol(name="range", metadata=encode_subscription(subscription, 3))
    message = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=45_000,
        member_id="nobody",
        protocol_type="consumer",
        protocols=(protocol,),
    )
    return ApiKey.JOIN_GROUP, 6, message


def _commit(group: str, partitions: int) -> Call:
    rows = tuple(OffsetCommitRequestPartition(partition_index=n) for n in range(partitions))
    topics = (OffsetCommitRequestTopic(name="t", partitions=rows),)
    message = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=1, member_id="nobody", topics=topics
    )
    return ApiKey.OFFSET_COMMIT, 8, message


def _fetch(groups: int) -> Call:
    named = tuple(OffsetFetchRequestGroup(group_id="") for _ in range(groups))
    return ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=named)


KINDS: dict[str, Callable[[], Call]] = {
    "JoinGroup, 31 MB of owned partitions, translated": lambda: _join("translated-hostile", 7_750_000),
    "JoinGroup, 31 MB of owned partitions, observed": lambda: _join("hostile", 7_750_000),
    "JoinGroup, 2 MB of owned partitions, translated": lambda: _join("translated-hostile", 500_000),
    "JoinGroup, as many elements as are taken, translated": lambda: _join("translated-hostile", 19_800),
    "JoinGroup, as many elements as are taken, observed": lambda: _join("hostile", 19_800),
    "OffsetCommit, as many elements as are taken, translated": lambda: _commit("translated-hostile", 19_900),
    "OffsetFetch of 5 million groups": lambda: _fetch(5_000_000),
}


def attack(address: str, kind: str) -> None:
    """Send calls of one kind until the process is ended."""
    api_key, version, message = KINDS[kind]()
    with Line(address) as line:
        frame = line.frame(api_key, version, message)
    del message
    print("ready", flush=True)

    def send() -> None:
        while True:
            with contextlib.suppress(OSError), Line(address) as line:
                line.call(
                    ApiKey.METADATA, 1, MetadataRequest(topics=())
                )  # so that the proxy knows it is let in
                while True:
                    line.exchange(frame)

    for _ in range(CONNECTIONS):
        threading.Thread(target=send, daemon=True).start()
    threading.Event().wait()


@contextlib.contextmanager
def attacking(address: str, kind: str | None) -> Iterator[None]:
    """A process that sends calls of one kind; none for None."""
    if kind is None:
        yield
        return
    command = [sys.executable, "-m", "benchmarks.hostile", "--attack", kind, "--bootstrap", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # noqa: S101  it is a pipe
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def measure(gateway: Gateway, kind: str | None, seconds: float) -> dict[str, float]:
    """The innocent member's Heartbeats in milliseconds, and the memory of the proxy in MiB."""
    group, topic = f"translated-{uuid4().hex[:8]}", "innocent"
    gateway.start()
    pid = gateway.process.pid
    before = peak = resident_bytes(pid)
    try:
        member = ClassicMember(Line(coordinator(gateway.bootstrap, group)), group, topic)
        member.join()
        member.settle()
        times: list[float] = []
        with attacking(coordinator(gateway.bootstrap, "hostile"), kind):
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                started = time.perf_counter()
                member.line.exchange(member.heartbeat_frame())
                times.append((time.perf_counter() - started) * 1000)
                peak = max(peak, resident_bytes(pid))
                time.sleep(_BEAT_EVERY_S)
        time.sleep(1)
        return {
            "p50_ms": round(statistics.median(times), 2),
            "p99_ms": round(statistics.quantiles(times, n=100)[98], 2),
            "longest_ms": round(max(times), 1),
            "before_mib": round(before / _MIB, 1),
            "peak_mib": round(peak / _MIB, 1),
            "after_mib": round(resident_bytes(pid) / _MIB, 1),
        }
    finally:
        gateway.stop()


def main() -> None:
    """Measure all kinds, or be the one who attacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", help="the cluster behind the proxy; without: a Kafka of its own")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--attack", choices=KINDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.attack:
        attack(arguments.bootstrap, arguments.attack)
        return
    results: dict[str, dict[str, float]] = {}
    with contextlib.ExitStack() as stack:
        bootstrap = arguments.bootstrap or stack.enter_context(kafka()).bootstrap
        gateway = Gateway(bootstrap, BUILD / f"bench-hostile-{os.getpid()}", more="drain: {grace_s: 0}\n")
        for kind in (None, *KINDS):
            results[kind or "nothing"] = measure(gateway, kind, arguments.seconds)
            print(kind or "nothing", results[kind or "nothing"], flush=True)
    REPORT.parent.mkdir(exist_ok=True)
    Path(REPORT).write_text(json.dumps(results, indent=2))
    table = Table(
        "hostile calls on 4 connections", "p50 ms", "p99", "longest", "MiB before", "peak", "1 s after"
    )
    for kind, result in results.items():
        table.add_row(kind, *map(str, result.values()))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
