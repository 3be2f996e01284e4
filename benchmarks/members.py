"""Measures how many members one worker can serve: translated classic members that heartbeat every 3 s.

Proxy, embedded coordinator and members are three processes. The members are one loop over epoll, which sends prepared
frames and decodes only what it must, so that the proxy's answers are what is timed. Each member has its own connection
as long as descriptors suffice; beyond that, two share one.

A member sends its next heartbeat 3 s after it sent the last one, as clients do (Java's ``Heartbeat.sentHeartbeat``,
librdkafka's ``rd_interval``), and its first at a random moment of the first 3 s, as clients that start independently.
Counting from the answer instead would synchronize all members after the first stall.
"""

import heapq
import os
import random
import select
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.test_bed import cpu_s, gateway, resident_bytes, waited_s
from benchmarks.wire import Line, join_frame_message
from protocol_codecs import ApiKey, Message, decode
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol_codecs.messages.sync_group import SyncGroupRequest
from protocol_codecs.registry import APIS
from proxy.config.schema import Limits
from proxy.runtime.fd_limits import connection_limit, raise_file_limit
from proxy.wire.framing import request_frame, response_body_offset

INTERVAL_S = 3.0
GROUP_SIZE = 10
WINDOW_S = 20.0
SETTLE_S = 180.0
JOINING = 400
TARGET_P99_MS = 100.0
TARGET_BYTES = 60 * 1024
SIZES = (1000, 5000, 10_000)
_SPARE = 60
_AFTER_REBALANCE = 27
_ID_REQUIRED = 79


class Connection:
    """One socket with one request in flight at a time."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(0)
        self.waiting: deque[tuple[bytes, Callable[[bytes], None]]] = deque()
        self._data = b""

    def send(self, frame: bytes, answered: Callable[[bytes], None]) -> None:
        self.waiting.append((frame, answered))
        if len(self.waiting) == 1:
            self.socket.sendall(frame)

    def readable(self) -> None:
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionError("the proxy closed a member's connection")
        self._data += more
        while len(self._data) >= 4 and len(self._data) >= 4 + struct.unpack_from(">i", self._data)[0]:
            end = 4 + struct.unpack_from(">i", self._data)[0]
            frame, self._data = self._data[:end], self._data[end:]
            _, answered = self.waiting.popleft()
            if self.waiting:
                self.socket.sendall(self.waiting[0][0])
            answered(frame)


class Member:
    """Joins, takes its assignment, and heartbeats; rejoins when told to."""

    def __init__(self, crowd: "Crowd", connection: Connection, group: str) -> None:
        self._crowd = crowd
        self._connection = connection
        self._group = group
        self.member_id = ""
        self.generation = -1
        self.stable = False
        self._heartbeat = b""
        self._sent_at = 0.0

    def join(self) -> None:
        self._crowd.unstable += self.stable
        self.stable = False
        message = join_frame_message(self._group, self._crowd.topic, self.member_id, 45_000)
        self._call(ApiKey.JOIN_GROUP, 7, message, self._joined)

    def _joined(self, answer: Any) -> None:
        self.member_id = answer.member_id or self.member_id
        if answer.error_code == 0:
            self.generation = answer.generation_id
            message = SyncGroupRequest(
                group_id=self._group, generation_id=self.generation, member_id=self.member_id
            )
            self._call(ApiKey.SYNC_GROUP, 3, message, self._synced)
        elif answer.error_code in (_ID_REQUIRED, _AFTER_REBALANCE):
            self.join()
        else:
            raise RuntimeError(f"JoinGroup: error {answer.error_code}")

    def _synced(self, answer: Any) -> None:
        if answer.error_code:
            self.join()
            return
        self.stable = True
        self._crowd.unstable -= 1
        message = HeartbeatRequest(
            group_id=self._group, generation_id=self.generation, member_id=self.member_id
        )
        self._heartbeat = request_frame(ApiKey.HEARTBEAT, 3, 7, "bench", message)
        self._crowd.book(self, time.perf_counter() + self._crowd.random.uniform(0, INTERVAL_S))

    def beat(self) -> None:
        self._sent_at = time.perf_counter()
        self._connection.send(self._heartbeat, self._beaten)

    def _beaten(self, frame: bytes) -> None:
        self._crowd.latencies.append(time.perf_counter() - self._sent_at)
        code = int.from_bytes(frame[12:14], "big")
        if code == 0:
            self._crowd.book(self, self._sent_at + INTERVAL_S)
        elif code == _AFTER_REBALANCE:
            self._crowd.rejoins += 1
            self.join()
        else:
            raise RuntimeError(f"Heartbeat: error {code}")

    def _call(self, api_key: ApiKey, version: int, message: Message, answered: Callable[[Any], None]) -> None:
        def decoded(frame: bytes) -> None:
            offset = response_body_offset(api_key, version, frame)
            answered(decode(APIS[api_key].response, version, frame, offset))

        self._connection.send(request_frame(api_key, version, 7, "bench", message), decoded)


class Crowd:
    """Many members in one loop."""

    def __init__(
        self, address: tuple[str, int], topic: str, count: int, group_size: int = GROUP_SIZE
    ) -> None:
        self.topic = topic
        self.latencies: list[float] = []
        self.rejoins = 0
        self.unstable = 0
        self.random = random.Random(count)
        self._address = address
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._due: list[tuple[float, int, Member]] = []
        self._sequence = 0
        self.members: list[Member] = []
        self.connection_count = min(count, connection_limit(Limits()) - _SPARE)
        self._count = count
        self._group_size = group_size

    def book(self, member: Member, at_s: float) -> None:
        self._sequence += 1
        heapq.heappush(self._due, (at_s, self._sequence, member))

    def join_all(self) -> None:
        """Connect and join until all are in and quiet for two intervals; only a few join at a time.

        The measure is about serving members, not about a storm of joins, which would time out on a busy machine.
        """
        open_connections: list[Connection] = []
        for n in range(self._count):
            if n < self.connection_count:
                connection = Connection(self._address)
                self._connections[connection.socket.fileno()] = connection
                self._epoll.register(connection.socket.fileno(), select.EPOLLIN)
                open_connections.append(connection)
            member = Member(
                self, open_connections[n % self.connection_count], f"translated-{n // self._group_size}"
            )
            self.members.append(member)
            self.unstable += 1
            member.join()
            while self.unstable >= JOINING:
                self.run(0.02)
        deadline = time.perf_counter() + SETTLE_S
        while True:
            rejoins = self.rejoins
            self.run(2 * INTERVAL_S)
            if all(member.stable for member in self.members) and self.rejoins == rejoins:
                return
            if time.perf_counter() > deadline:
                away = sum(not member.stable for member in self.members)
                raise TimeoutError(f"{away} of {self._count} members are not settled; {self.rejoins} rejoins")

    def run(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while (now := time.perf_counter()) < end:
            while self._due and self._due[0][0] <= now:
                _, _, member = heapq.heappop(self._due)
                if member.stable:
                    member.beat()
            until = min(end, self._due[0][0]) if self._due else end
            for descriptor, _ in self._epoll.poll(max(0.0, until - time.perf_counter())):
                self._connections[descriptor].readable()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.socket.close()
        self._epoll.close()


@contextmanager
def embedded(partitions: int) -> Iterator[tuple[str, int]]:
    """Start the embedded coordinator in its own process; return its bootstrap address and its process id."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.embedded", str(partitions)], stdout=subprocess.PIPE, text=True
    )
    if process.stdout is None:
        raise RuntimeError("no pipe")
    try:
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def held(
    count: int,
    *,
    group_size: int = GROUP_SIZE,
    partitions: int = GROUP_SIZE,
    window_s: float = WINDOW_S,
) -> dict[str, Any]:
    """Serve so many members, and measure."""
    raise_file_limit()
    name = f"members-{count}"
    with embedded(partitions) as (bootstrap, broker_pid), gateway(bootstrap, name) as proxy:
        pid = proxy.process.pid
        host, _, port = proxy.bootstrap.rpartition(":")
        _make_topic(proxy.bootstrap, "members")
        empty, at_start = resident_bytes(pid), cpu_s(pid)
        crowd = Crowd((host, int(port)), "members", count, group_size)
        started = time.perf_counter()
        crowd.join_all()
        joined_s = time.perf_counter() - started
        joining_cpu = cpu_s(pid) - at_start
        crowd.latencies.clear()
        forming, crowd.rejoins = crowd.rejoins, 0
        processes = {"proxy": pid, "coordinator": broker_pid, "members": os.getpid()}
        used = {name: (cpu_s(one), waited_s(one)) for name, one in processes.items()}
        began = time.perf_counter()
        crowd.run(window_s)
        took = time.perf_counter() - began
        shares = {
            name: {
                "cpu": round((cpu_s(one) - used[name][0]) / took, 3),
                "waiting_for_a_core": round((waited_s(one) - used[name][1]) / took, 3),
            }
            for name, one in processes.items()
        }
        per_member = (resident_bytes(pid) - empty) / count
        cuts = statistics.quantiles(crowd.latencies, n=100)
        crowd.close()
        return {
            "members": count,
            "group_size": group_size,
            "partitions": partitions,
            "connections": crowd.connection_count,
            "joined_s": round(joined_s, 1),
            "joining_cpu_ms_per_member": round(joining_cpu / count * 1000, 2),
            "heartbeats_per_s": round(len(crowd.latencies) / took),
            "shares": shares,
            "proxy_cpu_us_per_heartbeat": round(shares["proxy"]["cpu"] * took / len(crowd.latencies) * 1e6),
            "load_average": os.getloadavg()[0],
            "bytes_per_member": round(per_member),
            "p50_ms": round(cuts[49] * 1000, 2),
            "p99_ms": round(cuts[98] * 1000, 2),
            "rejoins_forming": forming,
            "rejoins": crowd.rejoins,
            "met": cuts[98] * 1000 < TARGET_P99_MS and per_member <= TARGET_BYTES,
        }


def measure(sizes: tuple[int, ...] = SIZES, window_s: float = WINDOW_S) -> list[dict[str, Any]]:
    results = []
    for count in sizes:
        results.append(held(count, window_s=window_s))
        print(f"  {results[-1]}", flush=True)
    return results


def _make_topic(bootstrap: str, topic: str) -> None:
    """Create the topic with a Metadata request to the embedded coordinator."""
    line = Line(bootstrap)
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=True)
    line.call(ApiKey.METADATA, 8, request)
    line.close()
