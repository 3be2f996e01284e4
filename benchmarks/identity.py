"""Measures what `identity: delegation_token` costs clients with certificates, beside mTLS straight at Kafka.

``python -m benchmarks.identity`` prints it; with ``--record`` it takes the place of the run of the same Kafka in
docs/evidence/identity.json, from which ``python -m tools.recorded_tables`` makes tables. One broker and one proxy:

- the time from the TCP connection to the first answer (ApiVersions), for each principal in turn: straight, its first
  connection through the proxy (which makes its token), and later ones while others are open;
- a request of 100 bytes, and throughput, beside the same proxy with clients that authenticate by SASL themselves;
- the proxy's memory with many principals, and the tokens that are left when it has ended.
"""

import argparse
import contextlib
import os
import shlex
import socket
import ssl
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from support.certificates import (
    ADMIN,
    Client,
    allow_tokens,
    certificate_proxy,
    cluster_with_tokens,
    identity_count,
    token_owners,
)
from support.entry import Proxy, running_proxy
from support.find_broker import own_cluster
from support.secured import sasl_settings

from benchmarks import throughput
from benchmarks.lib.test_bed import cpu_s, resident_bytes
from proxy.identity.speaker import SPREADS_S
from tools import identity_table, recorded
from tools.kafka.cluster import Cluster, ExtraListener
from tools.kafka.tls_files import TlsFiles

PRINCIPALS, OPEN, FOR_MEMORY = 500, 200, 10_000
REQUESTS, TURNS = 200, 15
RECORDS, ROUNDS = 200_000, 5
TOPIC = "throughput"
PATIENCE_S = 20.0
TOGETHER = 32
"""Connections that begin together where only the memory counts."""
_MIB = 1024 * 1024
_API_VERSIONS = struct.pack(">hhih", 18, 0, 1, 5) + b"bench"
_METADATA = struct.pack(">hhih", 3, 4, 1, 5) + b"bench" + struct.pack(">ih", 1, 72) + b"t" * 72 + b"\0"
"""Of 100 bytes, for a topic that is not there and is not to be created."""


def call(connection: ssl.SSLSocket, request: bytes) -> bytes:
    """Send a request and return its answer."""
    connection.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: ssl.SSLSocket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        if not (more := connection.recv(size - len(found))):
            raise ConnectionError("the connection ended")
        found += more
    return found


def connect(address: str, context: ssl.SSLContext) -> tuple[ssl.SSLSocket, float]:
    """Return a connection on which the first request is answered, and the milliseconds until then."""
    host, port = address.split(",", maxsplit=1)[0].rsplit(":", 1)
    began = time.perf_counter()
    plain = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection = context.wrap_socket(plain, server_hostname=host)
    call(connection, _API_VERSIONS)
    return connection, (time.perf_counter() - began) * 1000


def context_of(client: Client) -> ssl.SSLContext:
    """Return a TLS context with a client's certificate."""
    context = ssl.create_default_context(cafile=str(client.ca))
    context.load_cert_chain(client.certificate, client.key)
    return context


def times(straight: str, proxy: Proxy, contexts: Sequence[ssl.SSLContext]) -> dict[str, list[float]]:
    """Return the milliseconds of each principal's connections, which take turns."""
    found: dict[str, list[float]] = {"straight": [], "first": [], "straight again": [], "later": []}
    for names in (("straight", "first"), ("straight again", "later")):
        with contextlib.ExitStack() as stack:
            open_ones: list[ssl.SSLSocket] = []
            for context in contexts:
                for name, address in zip(names, (straight, proxy.bootstrap), strict=True):
                    connection, took_ms = connect(address, context)
                    found[name].append(took_ms)
                    open_ones.append(connection)
                    stack.callback(connection.close)
                while len(open_ones) > OPEN:
                    open_ones.pop(0).close()
    return found


def log_in(connection: ssl.SSLSocket) -> None:
    """Authenticate as a client does by itself."""
    mechanism, token = b"PLAIN", f"\0{ADMIN.user}\0{ADMIN.password}".encode()
    call(connection, struct.pack(">hhih", 17, 1, 1, 5) + b"bench" + struct.pack(">h", 5) + mechanism)
    answer = call(
        connection, struct.pack(">hhih", 36, 1, 1, 5) + b"bench" + struct.pack(">i", len(token)) + token
    )
    if answer[4:6] != b"\0\0":
        raise ConnectionError(f"not authenticated: {answer!r}")


def request_us(connections: dict[str, ssl.SSLSocket]) -> dict[str, float]:
    """Return the median microseconds of a request on each connection; they take turns."""
    found: dict[str, list[float]] = {name: [] for name in connections}
    for _ in range(TURNS):
        for name, connection in connections.items():
            began = time.perf_counter()
            for _ in range(REQUESTS):
                call(connection, _METADATA)
            found[name].append((time.perf_counter() - began) * 1e6 / REQUESTS)
    return {name: statistics.median(those) for name, those in found.items()}


class Way:
    """A proxy, and how clients come through it."""

    def __init__(self, proxy: Proxy, security: dict[str, str]) -> None:
        self.proxy = proxy
        self.security = security
        self.mb_s: list[float] = []
        self.cpu_s = 0.0

    def run(self, what: str, topic: str) -> None:
        """Move the records once."""
        before = cpu_s(self.proxy.pid)
        seconds = throughput.apart(what, self.proxy.bootstrap, topic, RECORDS, self.security)
        self.cpu_s += cpu_s(self.proxy.pid) - before
        self.mb_s.append(RECORDS * throughput.RECORD / 1e6 / seconds)


def at_rest(identity: Way, relayed: Way, client: Client) -> dict[str, Any]:
    """Compare what is relayed after the authentication."""
    found: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        connections = {}
        for name, way in (("identity", identity), ("relayed", relayed)):
            connections[name], _ = connect(way.proxy.bootstrap, context_of(client))
            stack.callback(connections[name].close)
        log_in(connections["relayed"])
        found["request_us"] = request_us(connections)
    for what in ("produce", "consume"):
        for way in (identity, relayed):
            way.mb_s, way.cpu_s = [], 0.0
        for turn in range(ROUNDS):
            for way in (identity, relayed) if turn % 2 else (relayed, identity):
                way.run(what, TOPIC)
        ratios = [one / other for one, other in zip(identity.mb_s, relayed.mb_s, strict=True)]
        found[what] = {
            "relayed_mb_s": statistics.median(relayed.mb_s),
            "ratio": statistics.median(ratios),
            "ratios": sorted(ratios),
            "cpu_ratio": identity.cpu_s / relayed.cpu_s,
        }
    return found


def memory(cluster: Cluster, tls: TlsFiles, folder: Path, clients: Sequence[Client]) -> dict[str, Any]:
    """Let each client connect once; return the proxy's memory, and the tokens before and after its end."""
    many = {"principals": 2 * len(clients), "tokens_per_s": 10_000}
    with certificate_proxy(cluster, tls, folder, identity=many) as proxy:
        connect(proxy.bootstrap, context_of(clients[0]))[0].close()
        before = resident_bytes(proxy.pid)
        with ThreadPoolExecutor(TOGETHER) as pool:
            for connection in pool.map(lambda each: connect(proxy.bootstrap, context_of(each))[0], clients):
                connection.close()
        after = resident_bytes(proxy.pid)
        made, there = identity_count(proxy, "tokens", "created"), len(token_owners(cluster))
    return {
        "principals": len(clients),
        "before_mib": before / _MIB,
        "after_mib": after / _MIB,
        "made": int(made),
        "at_the_broker": there,
        "left": len(token_owners(cluster)),
    }


def run(folder: Path, principals: int, for_memory: int) -> dict[str, Any]:
    """Return what was measured."""
    tls = TlsFiles(folder / "tls")
    mutual = {**tls.broker_settings(), "ssl.client.auth": "required"}
    options = cluster_with_tokens()
    options["listeners"] = (
        ExtraListener("SASL", "SASL_PLAINTEXT", sasl_settings()),
        ExtraListener("MTLS", "SSL", mutual),
    )
    options["java_options"] = (
        "-XX:TieredStopAtLevel=4",
        "-Xmx2g",
    )  # SCRAM credentials of a token take it long
    options["overrides"] = {**options["overrides"], "allow.everyone.if.no.acl.found": "true"}
    with own_cluster("bench-identity", **options) as cluster:
        allow_tokens(cluster, "CN=client-", prefixed=True)
        clients = [Client(tls, f"client-{number}") for number in range(principals)]
        found: dict[str, Any] = {"kafka": cluster.version, "principals": principals, "open": OPEN}
        found["pause_ms"] = SPREADS_S * 1000
        with certificate_proxy(cluster, tls, folder / "identity") as proxy:
            contexts = [context_of(client) for client in clients]
            found["ms"] = times(cluster.bootstrap_of("MTLS"), proxy, contexts)
            found["made"] = int(identity_count(proxy, "tokens", "created"))
            with relaying(cluster, tls, folder / "relayed") as other:
                admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
                admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
                throughput.produce(cluster.bootstrap, TOPIC, RECORDS)
                found |= at_rest(
                    Way(proxy, {key: str(value) for key, value in clients[0].confluent().items()}),
                    Way(other, sasl_security(tls)),
                    clients[0],
                )
        found["left"] = len(token_owners(cluster))
        print(f"{for_memory} more certificates are issued, and connect once each", flush=True)
        more = [Client(tls, f"client-more-{number}") for number in range(for_memory)]
        found["memory"] = memory(cluster, tls, folder / "memory", more)
    return found


@contextlib.contextmanager
def relaying(cluster: Cluster, tls: TlsFiles, folder: Path) -> Iterator[Proxy]:
    """A proxy that ends TLS and relays the SASL of its clients."""
    certificate, key = tls.issue("relaying")
    listener = {"certificate": str(certificate), "key": str(key)}
    with running_proxy(cluster.bootstrap_of("SASL"), folder, listener_tls=listener) as proxy:
        yield proxy


def sasl_security(tls: TlsFiles) -> dict[str, str]:
    """librdkafka's properties for that proxy."""
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(tls.ca),
        "sasl.mechanism": "PLAIN",
        "sasl.username": ADMIN.user,
        "sasl.password": ADMIN.password,
    }


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.identity", description=__doc__)
    parser.add_argument("--principals", type=int, default=PRINCIPALS)
    parser.add_argument("--for-memory", type=int, default=FOR_MEMORY)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = {
            **recorded.of_code(Path(__file__).parents[1]),
            "command": shlex.join(["python", "-m", "benchmarks.identity", *sys.argv[1:]]),
            "load": round(os.getloadavg()[1], 1),
        } | run(Path(folder), options.principals, options.for_memory)
    found["ms"] = {name: identity_table.quantiles(those) for name, those in found["ms"].items()}
    print(identity_table.table(found))
    if options.record:
        identity_table.RUNS.keep(found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
