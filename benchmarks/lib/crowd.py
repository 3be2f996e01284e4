"""Thousands of translated classic members in one loop over epoll, which heartbeat and are timed.

It sends prepared frames and decodes only what it must, so that the proxy's answers are what is timed. Each member has
its own connection as long as descriptors suffice; beyond that, two share one.

A member sends its first heartbeat at a random moment of the first 3 s, as clients that start independently, and each
next one 3 s after the last one was due. Clients count from when they sent the last one (Java's
``Heartbeat.sentHeartbeat``, librdkafka's ``rd_interval``), each by itself. Here one loop serves all of them: those that
a stall of it has delayed would be sent at one moment, and stay together from then on.

There may be several addresses, of replicas: connections are spread over them evenly, and a connection that its replica
closes is opened anew at one of those that are left.
"""

import heapq
import itertools
import random
import select
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from benchmarks.lib.wire import join_frame_message
from protocol_codecs import ApiKey, ErrorCode, Message, decode
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.messages.sync_group import SyncGroupRequest
from proxy.config.schema import Limits
from proxy.runtime.fd_limits import connection_limit
from proxy.wire.framing import request_frame, response_body_offset

Address = tuple[str, int]

INTERVAL_S = 3.0
JOIN_S = 240.0
SETTLE_S = 180.0
JOINING = 400
"""So many members join at a time."""
RETRY_S = 0.1
"""The pause of clients before they try again (``retry.backoff.ms``)."""
_SPARE = 60
_SAY_EVERY = 1000
_TRY_AGAIN = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_JOIN_ANEW = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
_REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, *_JOIN_ANEW})


class Timed(Protocol):
    """Something that sends at a time of its own."""

    def due(self) -> None:
        """Its time has come."""


class Connection:
    """One socket with one request in flight at a time."""

    def __init__(self, address: Address) -> None:
        self._open(address)
        self.members: list[Member] = []
        self.waiting: deque[tuple[bytes, Callable[[bytes], None]]] = deque()

    def _open(self, address: Address) -> None:
        self.address = address
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(0)
        self._data = b""

    def send(self, frame: bytes, answered: Callable[[bytes], None]) -> None:
        self.waiting.append((frame, answered))
        if len(self.waiting) == 1:
            self._send_first()

    def _send_first(self) -> None:
        try:
            self.socket.sendall(self.waiting[0][0])
        except (BrokenPipeError, ConnectionResetError):
            return  # closed by the other side: it is read next, and sent again by reopen

    def reopen(self, address: Address) -> None:
        """Go on at another address; what was not answered is sent again."""
        self.socket.close()
        self._open(address)
        if self.waiting:
            self._send_first()

    def is_open_after_reading(self) -> bool:
        """Take in what has come. False: the other side has closed the connection."""
        try:
            more = self.socket.recv(65536)
        except ConnectionResetError:
            return False
        if not more:
            return False
        self._data += more
        while len(self._data) >= 4 and len(self._data) >= 4 + struct.unpack_from(">i", self._data)[0]:
            end = 4 + struct.unpack_from(">i", self._data)[0]
            frame, self._data = self._data[:end], self._data[end:]
            _, answered = self.waiting.popleft()
            if self.waiting:
                self._send_first()
            answered(frame)
        return True


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
        self._sent_at = self._due_at = 0.0
        connection.members.append(self)

    def join(self) -> None:
        self._crowd.unstable += self.stable
        self.stable = False
        message = join_frame_message(self._group, self._crowd.topic, self.member_id, 45_000)
        self._call(ApiKey.JOIN_GROUP, 7, message, self._joined)

    def _joined(self, answer: Any) -> None:
        code = answer.error_code
        self.member_id = answer.member_id or self.member_id
        if code == ErrorCode.NONE:
            self.generation = answer.generation_id
            message = SyncGroupRequest(
                group_id=self._group, generation_id=self.generation, member_id=self.member_id
            )
            self._call(ApiKey.SYNC_GROUP, 3, message, self._synced)
        elif code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
            self.join()
        elif code in _JOIN_ANEW:
            self._rejoin(code)
        elif code in _TRY_AGAIN:
            self._try_again(code)
        else:
            raise RuntimeError(f"JoinGroup: error {code}")

    def _synced(self, answer: Any) -> None:
        if answer.error_code in _TRY_AGAIN:
            self._try_again(answer.error_code)
            return
        if answer.error_code:
            self.join()
            return
        self.stable = True
        self._crowd.unstable -= 1
        self._crowd.heard(self)
        message = HeartbeatRequest(
            group_id=self._group, generation_id=self.generation, member_id=self.member_id
        )
        self._heartbeat = request_frame(ApiKey.HEARTBEAT, 3, 7, "bench", message)
        self._due_at = time.perf_counter() + self._crowd.random.uniform(0, INTERVAL_S)
        self._crowd.book(self, self._due_at)

    def due(self) -> None:
        """Send a Heartbeat, or the JoinGroup that was to be tried again."""
        if not self.stable:
            self.join()
            return
        self._sent_at = time.perf_counter()
        self._connection.send(self._heartbeat, self._beaten)

    def _next_due(self) -> float:
        """When it heartbeats next: at its own moment of the interval, see the module."""
        missed = max(0.0, time.perf_counter() - self._due_at) // INTERVAL_S
        self._due_at += INTERVAL_S * (1 + missed)
        return self._due_at

    def _beaten(self, frame: bytes) -> None:
        self._crowd.latencies.append(time.perf_counter() - self._sent_at)
        code = int.from_bytes(frame[12:14], "big")
        if code == ErrorCode.NONE:
            self._crowd.heard(self)
            self._crowd.book(self, self._next_due())
        elif code in _REJOIN:
            self._rejoin(code)
        elif code in _TRY_AGAIN:
            self._try_again(code)
        else:
            raise RuntimeError(f"Heartbeat: error {code}")

    def _rejoin(self, code: int) -> None:
        self._crowd.rejoins += 1
        self._crowd.errors[ErrorCode(code).name] += 1
        if code in _JOIN_ANEW:
            self.member_id = ""
        self.join()

    def _try_again(self, code: int) -> None:
        self._crowd.errors[ErrorCode(code).name] += 1
        self._crowd.book(self, time.perf_counter() + RETRY_S)

    def _call(self, api_key: ApiKey, version: int, message: Message, answered: Callable[[Any], None]) -> None:
        def decoded(frame: bytes) -> None:
            offset = response_body_offset(api_key, version, frame)
            answered(decode(ALL_APIS[api_key].response, version, frame, offset))

        self._connection.send(request_frame(api_key, version, 7, "bench", message), decoded)


class Probe:
    """Sends one prepared frame again and again on a connection of its own: what the machine takes at this moment."""

    def __init__(self, crowd: "Crowd", address: Address, frame: bytes, error_at: int, every_s: float) -> None:
        self._crowd = crowd
        self._connection = crowd.connect(address)
        self._frame = frame
        self._error_at = error_at
        self._every_s = every_s
        self._sent_at = 0.0
        self.latencies: list[float] = []

    def due(self) -> None:
        self._sent_at = time.perf_counter()
        self._connection.send(self._frame, self._answered)

    def _answered(self, frame: bytes) -> None:
        self.latencies.append(time.perf_counter() - self._sent_at)
        if code := int.from_bytes(frame[self._error_at : self._error_at + 2], "big"):
            raise RuntimeError(f"the probe: error {code}")
        self._crowd.book(self, self._sent_at + self._every_s)


class Crowd:
    """Many members in one loop. Member n is in group n // `group_size`, so groups are spread over all addresses."""

    def __init__(
        self, addresses: Sequence[Address], topic: str, count: int, group_size: int, joining: int = JOINING
    ) -> None:
        self.topic = topic
        self.latencies: list[float] = []
        self.rejoins = 0
        self.errors: Counter[str] = Counter()
        self.unstable = 0
        self.random = random.Random(count)
        self.away: dict[Member, None] = {}
        """Whose connection was closed, and who was not answered since."""
        self._addresses = list(addresses)
        self._next = itertools.count()
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._due: list[tuple[float, int, Timed]] = []
        self._sequence = 0
        self.members: list[Member] = []
        self.connection_count = min(count, connection_limit(Limits()) - _SPARE)
        self._count = count
        self._group_size = group_size
        self._joining = joining

    def book(self, timed: Timed, at_s: float) -> None:
        self._sequence += 1
        heapq.heappush(self._due, (at_s, self._sequence, timed))

    def connect(self, address: Address) -> Connection:
        """Open a connection and read from it from now on."""
        connection = Connection(address)
        self._watch(connection)
        return connection

    def _watch(self, connection: Connection) -> None:
        self._connections[connection.socket.fileno()] = connection
        self._epoll.register(connection.socket.fileno(), select.EPOLLIN)

    def heard(self, member: Member) -> None:
        """A member was answered."""
        if self.away:
            self.away.pop(member, None)

    def leave(self, address: Address) -> None:
        """Connect to this address no more; the connections there stay until they are closed."""
        self._addresses.remove(address)

    def at(self, address: Address) -> int:
        """How many members have their connection there."""
        return sum(len(one.members) for one in self._connections.values() if one.address == address)

    def join_all(self, say: Callable[[str], None] = lambda _text: None) -> None:
        """Connect and join until all are in and quiet for two intervals; only a few join at a time.

        The measure is about serving members, not about a storm of joins, which would time out on a busy machine.

        :raises TimeoutError: the machine can't carry so many members.
        """
        began = time.perf_counter()
        open_connections: list[Connection] = []
        for n in range(self._count):
            if n < self.connection_count:
                open_connections.append(self.connect(self._address()))
            member = Member(
                self, open_connections[n % self.connection_count], f"translated-{n // self._group_size}"
            )
            self.members.append(member)
            self.unstable += 1
            member.join()
            while self.unstable >= self._joining:
                self.run(0.02)
            if time.perf_counter() - began > JOIN_S:
                raise TimeoutError(f"{len(self.members)} of {self._count} members came within {JOIN_S:g} s")
            if len(self.members) % _SAY_EVERY == 0:
                say(
                    f"{len(self.members)} members, {self.unstable} of them join, {self.rejoins} rejoins so far"
                )
        deadline = time.perf_counter() + SETTLE_S
        while True:
            rejoins = self.rejoins
            self.run(2 * INTERVAL_S)
            if all(member.stable for member in self.members) and self.rejoins == rejoins:
                return
            say(f"{self.unstable} members join, {self.rejoins} rejoins so far")
            if time.perf_counter() > deadline:
                away = sum(not member.stable for member in self.members)
                raise TimeoutError(f"{away} of {self._count} members are not settled; {self.rejoins} rejoins")

    def run(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while (now := time.perf_counter()) < end:
            while self._due and self._due[0][0] <= now:
                _, _, timed = heapq.heappop(self._due)
                timed.due()
            until = min(end, self._due[0][0]) if self._due else end
            for descriptor, _ in self._epoll.poll(max(0.0, until - time.perf_counter())):
                connection = self._connections[descriptor]
                if not connection.is_open_after_reading():
                    self._move(descriptor, connection)

    def _address(self) -> Address:
        return self._addresses[next(self._next) % len(self._addresses)]

    def _move(self, descriptor: int, connection: Connection) -> None:
        """Open a connection anew that was closed, at another address."""
        if connection.address in self._addresses or not self._addresses:
            raise ConnectionError("the proxy closed a member's connection")
        self.away.update(dict.fromkeys(connection.members))
        del self._connections[descriptor]  # closing its socket takes it out of the epoll object too
        connection.reopen(self._address())
        self._watch(connection)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.socket.close()
        self._epoll.close()
