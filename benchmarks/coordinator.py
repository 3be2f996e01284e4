"""Measures the embedded coordinator by group size, and a heartbeat's round trip beside Kafka's.

`make bench-coordinator` runs it, prints tables and writes build/bench-coordinator.json. The coordinator is called
directly and writes its log to memory. A new target assignment is the time of the heartbeat that computes it, with all
its records replayed and written. "growth" is the exponent p of cost ~ size**p between the smallest and the largest
group of a column: 1 is linear, 2 quadratic.
"""

import argparse
import gc
import json
import math
import os
import platform
import socket
import struct
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coordinator.config import CoordinatorConfig
from coordinator.group_coordinator import GroupCoordinator
from coordinator.image import MetadataImage, TopicImage
from coordinator.log import MemoryLog
from coordinator.shard import Call
from coordinator.uuids import SeededUuids
from protocol_codecs import ApiKey, decode, decode_prefix, encode
from protocol_codecs import all_messages as m
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.message import Message
from protocol_codecs.registry import request_header_version, response_header_version
from tools.kafka import jars
from tools.kafka.cluster import RUN, Cluster

REPORT = Path(__file__).resolve().parents[1] / "build" / "bench-coordinator.json"
MEMBERS = (10, 100, 1000)
PARTITIONS = (100, 1000, 10_000)
TOPICS = 10
HALF = 5
MIXED = "uniform*"
ASSIGNORS = ("uniform", "range", MIXED)
"""``uniform*``: every other member subscribes to half of the topics only."""
INTERVAL_MS = 1_000
GROWTH_TARGET = 1.25
"""n log n between 10 and 1,000 is n ** 1.24."""
ROUND_TRIPS = 2000


class Group:
    """A group of one coordinator, driven in virtual time."""

    def __init__(self, assignor: str, members: int, partitions: int, *, logged: bool = True) -> None:
        uuids = SeededUuids(1)
        topics = [TopicImage(uuids.next(), f"topic-{n}", partitions // TOPICS) for n in range(TOPICS)]
        self.coordinator = GroupCoordinator(
            CoordinatorConfig(),
            uuids=uuids,
            log=MemoryLog() if logged else None,
            image=MetadataImage(topics, version=1),
        )
        self.names = tuple(topic.name for topic in topics)
        self.is_mixed = assignor == MIXED
        self.assignor = assignor.removesuffix("*")
        self.now_ms = 1_000_000
        self.coordinator.start(self.now_ms)
        self.members: dict[str, int] = {}
        self.assigned: dict[str, Any] = {}
        for number in range(members):
            self.join(f"member-{number:06}")

    def join(self, member_id: str) -> None:
        self._send(
            member_id,
            0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=self.names[:HALF]
            if self.is_mixed and len(self.members) % 2
            else self.names,
            server_assignor=self.assignor,
            topic_partitions=(),
        )

    def beat(self, member_id: str) -> None:
        self._send(member_id, self.members[member_id])

    def leave(self, member_id: str) -> None:
        self._send(member_id, -1)
        del self.members[member_id], self.assigned[member_id]

    def assign(self, member_id: str) -> float:
        """Return the seconds of the heartbeat that computes a new target, once the interval has passed."""
        self.now_ms += INTERVAL_MS
        epoch = self.group.assignment_epoch
        seconds = timed(lambda: self.beat(member_id))
        if self.group.assignment_epoch == epoch:
            raise RuntimeError("no new target was computed")
        return seconds

    def settle(self) -> None:
        """Let all members reconcile."""
        for _ in range(20):
            for member_id in self.members:
                owned = tuple(
                    m.ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic, partitions=numbers)
                    for topic, numbers in self.assigned[member_id].items()
                )
                self._send(member_id, self.members[member_id], topic_partitions=owned)
            if self.group.state == "Stable":
                return
            self.now_ms += INTERVAL_MS
        raise RuntimeError(f"the group is still {self.group.state}")

    @property
    def group(self) -> Any:
        return self.coordinator.shard.groups["group"]

    def _send(self, member_id: str, epoch: int, **fields: Any) -> None:
        request = m.ConsumerGroupHeartbeatRequest(
            group_id="group", member_id=member_id, member_epoch=epoch, **fields
        )
        call = Call(1, 1, "client", "/127.0.0.1")
        response: Any = self.coordinator.handle(request, call, self.now_ms)[0].response
        if response.error_code:
            raise RuntimeError(f"{member_id}: error {response.error_code}, {response.error_message}")
        self.members[member_id] = response.member_epoch
        self.assigned.setdefault(member_id, {})
        if response.assignment is not None:
            self.assigned[member_id] = {
                topic.topic_id: topic.partitions for topic in response.assignment.topic_partitions
            }


@dataclass
class Cost:
    """The costs of one group size; times in milliseconds, memory in KiB."""

    assignor: str
    members: int
    partitions: int
    heartbeat_ms: float
    first_ms: float
    join_ms: float
    leave_ms: float
    step_ms: float
    member_kib: float


def timed(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    try:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began
    finally:
        gc.enable()


def measure(assignor: str, members: int, partitions: int) -> Cost:
    group = Group(assignor, members, partitions)
    first = group.assign("member-000000")
    step_s = timed(group.settle) / members
    names = list(group.members)
    rounds = max(1, 2000 // members)

    def beat_all() -> None:
        for name in names:
            group.beat(name)

    heartbeat = min(timed(beat_all) for _ in range(rounds)) / members
    group.join("newcomer")
    join = group.assign("member-000000") if group.group.state == "Assigning" else math.nan
    group.settle()
    group.leave("newcomer")
    leave = group.assign("member-000000")
    return Cost(
        assignor,
        members,
        partitions,
        heartbeat * 1e3,
        first * 1e3,
        join * 1e3,
        leave * 1e3,
        step_s * 1e3,
        memory_kib(assignor, members, partitions),
    )


def memory_kib(assignor: str, members: int, partitions: int) -> float:
    """Return the memory of a settled group per member, without its log."""
    gc.collect()
    tracemalloc.start()
    try:
        group = Group(assignor, members, partitions, logged=False)
        group.assign("member-000000")
        group.settle()
        group.assigned.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / 1024 / members
    finally:
        tracemalloc.stop()


def growth(small: float, large: float, factor: float) -> float:
    return math.log(large / small) / math.log(factor)


# Round trips


class Peer:
    """One plain connection to a broker."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, request: Message, version: int) -> Any:
        key = ApiKey(type(request).__schema__.api_key or 0)
        header = m.RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=1, client_id="bench"
        )
        frame = encode(header, request_header_version(key, version)) + encode(request, version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        answer = self._exactly(struct.unpack(">i", self._exactly(4))[0])
        _, start = decode_prefix(m.ResponseHeader, response_header_version(key, version), answer)
        return decode(ALL_APIS[key].response, version, answer, start)

    def close(self) -> None:
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        received = b""
        while len(received) < count:
            part = self._socket.recv(count - len(received))
            if not part:
                raise ConnectionError("the broker closed the connection")
            received += part
        return received


class Member:
    """A member that is alone in its group and heartbeats as fast as it is answered."""

    def __init__(self, bootstrap: str) -> None:
        self.peer = Peer(bootstrap)
        self._create_topic()
        joined = self._until_served(
            lambda: self.peer.call(
                m.ConsumerGroupHeartbeatRequest(
                    group_id="bench",
                    member_id="member",
                    member_epoch=0,
                    rebalance_timeout_ms=60_000,
                    subscribed_topic_names=("bench",),
                    topic_partitions=(),
                ),
                1,
            )
        )
        self._epoch = joined.member_epoch

    def beat(self) -> float:
        beat = m.ConsumerGroupHeartbeatRequest(group_id="bench", member_id="member", member_epoch=self._epoch)
        began = time.perf_counter()
        answer = self.peer.call(beat, 1)
        taken = time.perf_counter() - began
        if answer.error_code:
            raise RuntimeError(f"heartbeat: error {answer.error_code}")
        self._epoch = answer.member_epoch
        return taken

    def _create_topic(self) -> None:
        topic = m.CreateTopicsRequestTopic(name="bench", num_partitions=10, replication_factor=1)
        self.peer.call(m.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 7)

    def _until_served(self, ask: Callable[[], Any]) -> Any:
        self.peer.call(m.FindCoordinatorRequest(key_type=0, coordinator_keys=("bench",)), 4)
        deadline = time.monotonic() + 60
        while (answer := ask()).error_code:
            if time.monotonic() > deadline:
                raise RuntimeError(f"joining: error {answer.error_code}")
            time.sleep(0.05)
        return answer


@contextmanager
def embedded() -> Iterator[str]:
    """Run the embedded broker in its own process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "coordinator.broker", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        if process.stdout is None:
            raise RuntimeError("no output")
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait()


def round_trips() -> dict[str, dict[str, float]] | str:
    """Return median and 99th percentile of a heartbeat's round trip in microseconds; or why there is none."""
    cluster = Cluster(RUN / f"bench-coordinator-{os.getpid()}")
    try:
        cluster.save(owner_pid=os.getpid())
        cluster.start()
        with embedded() as bootstrap:
            members = {"embedded": Member(bootstrap), f"Kafka {cluster.version}": Member(cluster.bootstrap)}
            times: dict[str, list[float]] = {name: [] for name in members}
            for number in range(2 * ROUND_TRIPS):
                for name, member in members.items():
                    taken = member.beat()
                    if number >= ROUND_TRIPS:  # the first half warms Java up
                        times[name].append(taken)
            for member in members.values():
                member.peer.close()
        return {name: percentiles(taken) for name, taken in times.items()}
    except jars.KafkaUnavailableError as reason:
        return f"no Kafka: {reason}"
    finally:
        cluster.stop(grace_s=3)
        cluster.remove()


def percentiles(taken: list[float]) -> dict[str, float]:
    ordered = sorted(taken)
    return {"median_us": ordered[len(ordered) // 2] * 1e6, "p99_us": ordered[len(ordered) * 99 // 100] * 1e6}


# Output

COLUMNS = ("heartbeat_ms", "first_ms", "join_ms", "leave_ms", "step_ms", "member_kib")
HEAD = f"{'assignor':9}{'members':>8}{'partitions':>11}" + "".join(
    f"{title:>13}" for title in ("heartbeat us", "first ms", "joined ms", "left ms", "step us", "KiB/member")
)


def line(cost: Cost) -> str:
    values = (
        cost.heartbeat_ms * 1e3,
        cost.first_ms,
        cost.join_ms,
        cost.leave_ms,
        cost.step_ms * 1e3,
        cost.member_kib,
    )
    return f"{cost.assignor:9}{cost.members:8}{cost.partitions:11}" + "".join(f"{v:13.2f}" for v in values)


def growths(costs: list[Cost]) -> list[dict[str, Any]]:
    """Return how an assignment's cost grows where members and partitions grow together, a hundredfold."""
    by_size = {(c.assignor, c.members, c.partitions): c for c in costs}
    found = []
    for assignor in ASSIGNORS:
        small = by_size[assignor, MEMBERS[0], PARTITIONS[0]]
        large = by_size[assignor, MEMBERS[-1], PARTITIONS[-1]]
        for column in ("heartbeat_ms", "first_ms", "join_ms", "leave_ms"):
            power = growth(getattr(small, column), getattr(large, column), MEMBERS[-1] / MEMBERS[0])
            found.append({"assignor": assignor, "cost": column, "growth": power})
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coordinator", description=__doc__)
    parser.add_argument("--no-kafka", action="store_true", help="without the round trips")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores\n\n{HEAD}", flush=True)
    costs = []
    for assignor in ASSIGNORS:
        for members in MEMBERS:
            for partitions in PARTITIONS:
                costs.append(measure(assignor, members, partitions))
                print(line(costs[-1]), flush=True)
    found = growths(costs)
    print("\ngrowth from 10 members and 100 partitions to 1,000 members and 10,000 partitions:")
    for one in found:
        verdict = "pass" if one["growth"] <= GROWTH_TARGET else "MISS"
        print(f"  {one['assignor']:9}{one['cost']:14} size ** {one['growth']:.2f}  {verdict}")
    trips = "not asked for" if options.no_kafka else round_trips()
    print("\nheartbeat, round trip on loopback, one member:")
    if isinstance(trips, str):
        print(f"  {trips}")
    else:
        for name, values in trips.items():
            print(f"  {name:14} median {values['median_us']:7.0f} us, p99 {values['p99_us']:7.0f} us")
    report = {
        "python": platform.python_version(),
        "costs": [asdict(c) for c in costs],
        "growth": found,
        "round_trips": trips,
    }
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=1) + "\n")
    print(f"\nwritten to {REPORT.relative_to(Path.cwd()) if REPORT.is_relative_to(Path.cwd()) else REPORT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
