"""Measures what attackers can do to the process, and to a member beside them, directly at Kafka and through us.

    python -m benchmarks.hostile [--calls 100000] [--seconds 10] [--only TEXT] [--rounds 1]

A broker with SASL and ACLs, and a group of one member whose principal alone may access it. Attacks are floods of
JoinGroups, from connections that have not authenticated and from a principal without rights, with group ids of 30 kB;
and single calls as large as a frame may be, also from a principal with rights. While they run, the member heartbeats
every 20 ms. The table (and build/hostile.json) says how much of the floods was stored, the member's longest wait, the
peak memory, and the members of its group afterwards.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import statistics
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType
from rich.console import Console
from rich.table import Table

from benchmarks.lib.test_bed import BUILD, Gateway, kafka, resident_bytes
from benchmarks.lib.wire import ClassicMember, Line
from protocol_codecs import ApiKey
from protocol_codecs.messages.api_versions import ApiVersionsRequest
from protocol_codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol_codecs.messages.sasl_handshake import SaslHandshakeRequest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "integration"))
from support.secured import allow, sasl_settings, secret

from tools.kafka.cluster import ExtraListener

REPORT = BUILD / "hostile.json"
OWNER, STRANGER = "alice", "bob"
HEARTBEAT_EVERY_S = 0.02
LONG_GROUP_ID = 30_000
CONNECTIONS = 8
MIB = 1024 * 1024
LARGEST_FRAME = 31 * MIB
_HEADER = struct.Struct(">hhih")
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_TAKES_S = 20.0

TARGET_WAIT_MS = 100.0
"""Or as long as straight at Kafka, where that is longer: both cores are busy with the strangers' work there."""
TARGET_MEMORY_MIB = 1024


def authenticated(address: str, user: str) -> Line:
    """Open a connection of this user, authenticated by SASL PLAIN."""
    line = Line(address)
    line.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    line.call(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
    token = b"\0".join((b"", user.encode(), secret(user).encode()))
    answer = line.call(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=token))
    if answer.error_code:
        raise PermissionError(answer.error_message)
    return line


# -- what is sent: made by hand, because nothing honest would send it ----------------------------------------


def frame(api_key: int, version: int, body: bytes) -> bytes:
    """Return a request without a client id, with its size."""
    head = _HEADER.pack(api_key, version, 1, -1)
    return _INT32.pack(len(head) + len(body)) + head + body


def text(value: bytes) -> bytes:
    return _INT16.pack(len(value)) + value


def join(group: bytes, protocol_type: bytes, metadata: bytes = b"") -> bytes:
    """Return JoinGroup v2 without a member id."""
    protocol = text(b"range") + _INT32.pack(len(metadata)) + metadata
    timeouts = _INT32.pack(10_000) * 2
    return frame(
        ApiKey.JOIN_GROUP,
        2,
        text(group) + timeouts + text(b"") + text(protocol_type) + _INT32.pack(1) + protocol,
    )


def owning(topic: bytes, partitions: int) -> bytes:
    """Return a subscription (v1 of the embedded protocol) that claims so many partitions."""
    owned = text(topic) + _INT32.pack(partitions) + bytes(4 * partitions)
    return _INT16.pack(1) + _INT32.pack(1) + text(topic) + _INT32.pack(-1) + _INT32.pack(1) + owned


def offset_fetch_of_groups(groups: int) -> bytes:
    """Return OffsetFetch v8 of so many groups without a name, in the flexible form."""
    count = groups + 1
    varint = bytearray()
    while count > 0x7F:
        varint.append(count & 0x7F | 0x80)
        count >>= 7
    varint.append(count)
    body = b"\0" + bytes(varint) + b"\x01\x00\x00" * groups + b"\0" + b"\0"
    return frame(ApiKey.OFFSET_FETCH, 8, body)


# -- who sends it, each in a process of its own, which gives way to the proxy, the broker and the member -------


def give_way() -> None:
    """Lower the priority: real attackers have their own machines, so they must not take time from the measured ones."""
    os.nice(19 - os.nice(0))


def send(address: str, user: str | None, data: bytes, times: int) -> None:
    """Send it so many times, one after another, on connections that are reopened when they are closed."""
    line: Line | None = None
    for _ in range(times):
        try:
            if line is None:
                line = Line(address) if user is None else authenticated(address, user)
                line.socket.settimeout(_TAKES_S)
            line.exchange(data)
        except OSError:
            if line is not None:
                line.close()
            line = None


def flood(address: str, user: str | None, calls: int, seed: int) -> None:
    """Send JoinGroups that each name another group."""
    line: Line | None = None
    for n in range(calls):
        group = f"{seed}-{n}-".encode().ljust(LONG_GROUP_ID, b"x")
        try:
            line = line or (Line(address) if user is None else authenticated(address, user))
            line.exchange(join(group, b"connect" if n % 2 else b"consumer"))
        except OSError:
            if line is not None:
                line.close()
            line = None


def send_for(address: str, user: str | None, data: bytes, seconds: float) -> None:
    """Send it repeatedly for a duration."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        send(address, user, data, 1)


# -- who is served beside them -------------------------------------------------------------------------------


class Member:
    """The group's only member, which heartbeats all the time."""

    def __init__(self, address: str, bootstrap_user: str, group: str, topic: str) -> None:
        self._member = ClassicMember(authenticated(address, bootstrap_user), group, topic)
        self._member.settle()
        self.longest_s = 0.0
        self.refused = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(HEARTBEAT_EVERY_S):
            started = time.perf_counter()
            answer = self._member.line.exchange(self._member.heartbeat_frame())
            self.longest_s = max(self.longest_s, time.perf_counter() - started)
            self.refused += answer[12:14] != b"\0\0"

    def end(self) -> None:
        """Leave the group, so that the next member is alone in it."""
        self._over.set()
        self._thread.join()
        self._member.leave()
        self._member.line.close()


class Peak:
    """The peak memory of a process since this object was created."""

    def __init__(self, pid: int) -> None:
        self._file = Path(f"/proc/{pid}/status")
        Path(f"/proc/{pid}/clear_refs").write_text("5")

    def bytes(self) -> int:
        (line,) = (one for one in self._file.read_text().splitlines() if one.startswith("VmHWM"))
        return int(line.split()[1]) * 1024


def attacks(group: bytes, topic: bytes, calls: int, seconds: float) -> dict[str, list[tuple[Any, ...]]]:
    """Return, by name, one tuple for each process: the function and its arguments after the address."""
    claims = (LARGEST_FRAME - 200) // 4
    big_join = join(group, b"consumer", owning(topic, claims))
    own_join = join(b"another-" + group, b"consumer", owning(topic, claims))
    each = calls // 2 // CONNECTIONS
    return {
        "nothing": [],
        f"{calls} JoinGroups, 30 kB group ids": [
            *((flood, None, each, n) for n in range(CONNECTIONS)),
            *((flood, STRANGER, each, CONNECTIONS + n) for n in range(CONNECTIONS)),
        ],
        "4 JoinGroups of 31 MB, no right": [(send, STRANGER, big_join, 1)] * 4,
        "4 JoinGroups of 31 MB, of another group, with rights": [(send, OWNER, own_join, 1)] * 4,
        "OffsetFetch of 5 million groups": [(send, STRANGER, offset_fetch_of_groups(5_000_000), 1)],
        f"unauthenticated JoinGroups of 2 MB on 4 connections for {seconds:g} s": [
            (send_for, None, join(group, b"consumer", owning(topic, 2 * MIB // 4 - 100)), seconds)
        ]
        * 4,
    }


def _attacker(what: Callable[..., None], *arguments: Any) -> None:
    give_way()
    what(*arguments)


def under(attack: list[tuple[Any, ...]], address: str) -> None:
    """Run the processes of an attack until they end."""
    spawn = multiprocessing.get_context("spawn")
    running = [
        spawn.Process(target=_attacker, args=(what, address, *arguments)) for what, *arguments in attack
    ]
    for process in running:
        process.start()
    for process in running:
        process.join()
    if not running:
        time.sleep(3.0)  # what the member waits without anybody beside it


@contextlib.contextmanager
def proxy(bootstrap: str) -> Iterator[Gateway]:
    running = Gateway(bootstrap, BUILD / "bench" / "hostile", more="")
    running.log.unlink(missing_ok=True)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def members_of(admin: AdminClient, group: str) -> int:
    return len(admin.describe_consumer_groups([group])[group].result(30).members)


class Bed(NamedTuple):
    """A broker with a group of each way, and Epochgate before it."""

    admin: AdminClient
    gateway: Gateway
    topic: str
    ways: dict[str, str]
    """Way -> the address of its bootstrap broker: "direct" and "proxied"."""

    def group(self, way: str) -> str:
        return f"translated-{way}-{self.topic}"


@contextlib.contextmanager
def bed() -> Iterator[Bed]:
    """Start the broker and Epochgate. Only the owner may act in the groups."""
    listener = ExtraListener("SASL", "SASL_PLAINTEXT", sasl_settings())
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    overrides = {"authorizer_class_name": authorizer, "super_users": "User:ANONYMOUS"}
    with kafka(listener, **overrides) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topic = f"hostile-{uuid4().hex[:8]}"
        admin.create_topics([NewTopic(topic, 4, 1)])[topic].result(30)
        allow(admin, OWNER, ResourceType.TOPIC, topic, AclOperation.READ, AclOperation.DESCRIBE)
        with proxy(cluster.bootstrap_of("SASL")) as gateway:
            ways = {"direct": cluster.bootstrap_of("SASL"), "proxied": gateway.bootstrap}
            started = Bed(admin, gateway, topic, ways)
            for way in ways:
                for name in (started.group(way), f"another-{started.group(way)}"):
                    allow(admin, OWNER, ResourceType.GROUP, name, AclOperation.READ, AclOperation.DESCRIBE)
            yield started


def measure(started: Bed, only: str, calls: int, seconds: float) -> dict[str, Any]:
    """Run each attack whose name contains ``only``, straight and through Epochgate."""
    results: dict[str, Any] = {}
    for way, bootstrap in started.ways.items():
        group = started.group(way)
        for name, attack in attacks(group.encode(), started.topic.encode(), calls, seconds).items():
            if only not in name:
                continue
            print(f"  {way}: {name}", flush=True)
            gateway = started.gateway
            peak = Peak(gateway.process.pid)
            before = kept(gateway)
            member = Member(bootstrap, OWNER, group, started.topic)
            under(attack, bootstrap)
            members = members_of(started.admin, group)
            member.end()
            one: dict[str, Any] = {
                "longest_heartbeat_ms": round(member.longest_s * 1000, 1),
                "heartbeats_refused": member.refused,
                "members": members,
            }
            if way == "proxied":
                one |= {
                    "peak_memory_mib": round(peak.bytes() / MIB, 1),
                    "before": before,
                    "after": kept(gateway),
                }
            results.setdefault(name, {})[way] = one
    return results


def kept(gateway: Gateway) -> dict[str, float]:
    """Return what the process stores, shows and has written."""
    return {
        "memory_mib": round(resident_bytes(gateway.process.pid) / MIB, 1),
        "metrics_kib": round(len(gateway.get("metrics")) / 1024, 1),
        "groups_kib": round(len(gateway.get("api/groups")) / 1024, 1),
        "log_kib": round(gateway.log.stat().st_size / 1024, 1),
    }


def show(results: dict[str, Any]) -> bool:
    """Print the table; return whether every target was met."""
    table = Table(
        "beside", "longest Heartbeat, direct", "through us", "peak memory, MiB", "kept: before -> after", "members", "",
        title="A member among strangers",
    )  # fmt: skip
    all_met = True
    for name, ways in results.items():
        direct, ours = ways["direct"], ways["proxied"]
        met = (
            ours["longest_heartbeat_ms"] <= max(TARGET_WAIT_MS, direct["longest_heartbeat_ms"])
            and ours["peak_memory_mib"] <= TARGET_MEMORY_MIB
            and ours["members"] == direct["members"]
        )
        all_met &= met
        changes = ", ".join(
            f"{what.split('_')[0]} {ours['before'][what]} -> {ours['after'][what]}" for what in ours["before"]
        )
        table.add_row(
            name, f"{direct['longest_heartbeat_ms']} ms", f"{ours['longest_heartbeat_ms']} ms",
            str(ours["peak_memory_mib"]), changes, f"{direct['members']} / {ours['members']}",
            "met" if met else "MISSED",
        )  # fmt: skip
    Console(width=180).print(table)
    return all_met


def summarize(rounds: list[dict[str, Any]]) -> None:
    """Print the longest Heartbeats of all rounds: least, median and most."""
    for name, ways in rounds[0].items():
        print(name)
        for way in ways:
            waits = sorted(one[name][way]["longest_heartbeat_ms"] for one in rounds)
            print(f"  {way}: {waits[0]} to {waits[-1]} ms, median {statistics.median(waits):.1f} ms")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000, help="JoinGroups of the flood")
    parser.add_argument("--seconds", type=float, default=10.0, help="of unauthenticated JoinGroups of 2 MB")
    parser.add_argument("--only", default="", metavar="TEXT", help="attacks whose name contains this")
    parser.add_argument(
        "--rounds", type=int, default=1, help="of all attacks; of several, the waits are summed up"
    )
    options = parser.parse_args()
    with bed() as started:
        rounds = [
            measure(started, options.only, options.calls, options.seconds) for _ in range(options.rounds)
        ]
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(rounds, indent=2) + "\n")
    show(rounds[-1])
    if len(rounds) > 1:
        summarize(rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
