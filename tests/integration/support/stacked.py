"""Epochgate with another gateway in front of it or behind it, set up as docs/how-to/behind-other-gateways.md has it."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import ROOT
from support.entry import NODE_IDS, Proxy, running_proxy
from support.secured import secured_cluster
from tests.skips import Need, without
from tools import haproxy
from tools.kafka.cluster import Cluster, ExtraListener
from tools.kafka.ports import LOOPBACK, free_port_block, free_ports
from tools.kafka.tls_files import TlsFiles
from tools.kroxylicious import gateway, jars
from tools.kroxylicious.jars import Kroxylicious

PAGE = ROOT / "docs" / "how-to" / "behind-other-gateways.md"
BROKERS = 3
HIDES_SHARE_GROUPS_BEFORE = (0, 16, 0)
"""Older releases of Kroxylicious have a Kafka library in which these APIs were not final."""
IN_FRONT = "127.0.0.2"
"""Where HAProxy listens when it is in front: on the same ports as Epochgate behind it."""


class Way(StrEnum):
    """What stands between the clients and the brokers."""

    DIRECT = "direct"
    ALONE = "epochgate"
    KROXYLICIOUS_IN_FRONT = "kroxylicious-epochgate"
    KROXYLICIOUS_BEHIND = "epochgate-kroxylicious"
    HAPROXY_IN_FRONT = "haproxy-epochgate"
    HAPROXY_BEHIND = "epochgate-haproxy"


class Security(StrEnum):
    """How clients and brokers speak to each other, and the name of the brokers' listener for it."""

    PLAINTEXT = "PLAINTEXT"
    SASL = "SASL"
    SASL_TLS = "SASL_TLS"


@dataclass(frozen=True)
class Stack:
    """Where clients connect, and the Epochgate on the way.

    `straight` is the brokers' own listener, `upstream` what Epochgate connects to.
    """

    way: Way
    bootstrap: str
    straight: str
    upstream: str
    ports: frozenset[int]
    """All that clients may connect to."""
    proxy: Proxy | None = None
    kroxylicious: Kroxylicious | None = None
    """What is on the way, if it is."""

    @property
    def hides_share_groups(self) -> bool:
        """Whether the other gateway takes their APIs out of the brokers' ApiVersions."""
        return self.kroxylicious is not None and self.kroxylicious.version < HIDES_SHARE_GROUPS_BEFORE

    @property
    def mode(self) -> str:
        """What becomes of a group with this prefix."""
        return "direct" if self.proxy is None else "translate"


class Stacks:
    """Three brokers, and what is put before them. Each listener has one of its own for HAProxy behind Epochgate."""

    def __init__(self, tls: TlsFiles) -> None:
        self.tls = tls
        self._advertised = {security: free_ports(BROKERS) for security in Security}
        self._certificate, self._key = map(str, tls.issue("gateway"))
        self._cluster: Cluster | None = None

    def options(self) -> dict[str, Any]:
        """Those of the cluster, which `use` gets then."""
        options = secured_cluster(self.tls, brokers=BROKERS)
        own: Sequence[ExtraListener] = [
            one for one in options["listeners"] if one.name in set(map(str, Security))
        ]
        plain = ExtraListener("PLAINTEXT", "PLAINTEXT")
        behind = [
            ExtraListener(
                _of_haproxy(Security(one.name)),
                one.protocol,
                one.settings,
                advertised_ports=self._advertised[Security(one.name)],
            )
            for one in (plain, *own)
        ]
        return {**options, "listeners": (*own, *behind)}

    def use(self, cluster: Cluster) -> None:
        """These are the brokers."""
        self._cluster = cluster

    @property
    def cluster(self) -> Cluster:
        """The brokers."""
        assert self._cluster is not None, "they are not started"
        return self._cluster

    @contextlib.contextmanager
    def running(self, way: Way, security: Security, folder: Path) -> Iterator[Stack]:
        """Start what this way has, from the brokers to the clients; all is stopped at the end."""
        straight = self._listener(security)
        with contextlib.ExitStack() as stack:
            if way is Way.DIRECT:
                ports = frozenset(int(one.rpartition(":")[2]) for one in straight.split(","))
                yield Stack(way, straight, straight, straight, ports)
                return
            if way in {Way.HAPROXY_IN_FRONT, Way.HAPROXY_BEHIND} and haproxy.program() is None:
                without(Need.CHART, "haproxy is not installed")
            upstream, other = straight, _kroxylicious() if of_kroxylicious(way) else None
            if way is Way.KROXYLICIOUS_BEHIND:
                upstream, _ = stack.enter_context(self._kroxylicious("behind", straight, security, folder))
            elif way is Way.HAPROXY_BEHIND:
                upstream = stack.enter_context(self._haproxy_behind(security, folder))
            proxy = stack.enter_context(self._epochgate(way, upstream, security, folder))
            bootstrap, ports = proxy.bootstrap, frozenset(proxy.ports)
            if way is Way.KROXYLICIOUS_IN_FRONT:
                bootstrap, ports = stack.enter_context(
                    self._kroxylicious("in-front", bootstrap, security, folder)
                )
            elif way is Way.HAPROXY_IN_FRONT:
                stack.enter_context(self._haproxy_in_front(proxy, folder))
            yield Stack(way, bootstrap, straight, upstream, ports, proxy, other)

    def _listener(self, security: Security) -> str:
        if security is Security.PLAINTEXT:
            return self.cluster.bootstrap
        return self.cluster.bootstrap_of(security)

    def _epochgate(
        self, way: Way, upstream: str, security: Security, folder: Path
    ) -> contextlib.AbstractContextManager[Proxy]:
        tls: dict[str, Any] = {}
        if security is Security.SASL_TLS:
            tls = {
                "listener_tls": {"certificate": self._certificate, "key": self._key},
                "upstream_tls": {"ca": str(self.tls.ca)},
            }
            if way is Way.HAPROXY_IN_FRONT:  # the certificate is of 127.0.0.1
                certificate, key = self.tls.issue("in-front", IN_FRONT)
                tls["listener_tls"] = {"certificate": str(certificate), "key": str(key)}
        host = IN_FRONT if way is Way.HAPROXY_IN_FRONT else LOOPBACK
        return running_proxy(upstream, folder / "epochgate", advertised_host=host, **tls)

    @contextlib.contextmanager
    def _kroxylicious(
        self, where: str, target: str, security: Security, folder: Path
    ) -> Iterator[tuple[str, frozenset[int]]]:
        (port,), first = free_ports(1), free_port_block(NODE_IDS)
        told = "epochgate.example:9092" if where == "in-front" else "kafka-1.example:9092"
        text = snippet(
            f"kroxylicious-{where}.yaml",
            {
                told: target,
                "kroxylicious.example:9192": f"{LOOPBACK}:{port}",
                "nodeStartPort: 9200": f"nodeStartPort: {first}",
            },
        )
        if security is Security.SASL_TLS:
            text = self._with_tls(text)
        with gateway.running(_kroxylicious(), text, port, folder / "kroxylicious"):
            yield f"{LOOPBACK}:{port}", frozenset({port, *range(first, first + NODE_IDS)})

    def _with_tls(self, text: str) -> str:
        """The configuration of the page, with TLS on both sides."""
        configuration = yaml.safe_load(text)
        files = {
            "/tls/ca.pem": str(self.tls.ca),
            "/tls/kroxylicious.pem": self._certificate,
            "/tls/kroxylicious.key": self._key,
        }
        tls = yaml.safe_load(snippet("kroxylicious-tls.yaml", files))
        (cluster,) = configuration["virtualClusters"]
        cluster["targetCluster"] |= tls["targetCluster"]
        cluster["gateways"][0] |= tls["gateway"]
        return json.dumps(configuration)

    @contextlib.contextmanager
    def _haproxy_behind(self, security: Security, folder: Path) -> Iterator[str]:
        brokers = self.cluster.bootstrap_of(_of_haproxy(security)).split(",")
        fronts = [f"{LOOPBACK}:{port}" for port in self._advertised[security]]
        changes = {
            **{f"kafka-{number}.example:9092": broker for number, broker in enumerate(brokers, start=1)},
            **{f"haproxy.example:919{number}": front for number, front in enumerate(fronts, start=1)},
        }
        addresses = [(LOOPBACK, port) for port in self._advertised[security]]
        with haproxy.running(snippet("haproxy-behind.cfg", changes), addresses, folder / "haproxy"):
            yield ",".join(fronts)

    @contextlib.contextmanager
    def _haproxy_in_front(self, proxy: Proxy, folder: Path) -> Iterator[None]:
        bootstrap, first = (int(one.rpartition(":")[2]) for one in (proxy.bootstrap, proxy.of_node(0)))
        changes = {
            "haproxy.example": IN_FRONT,
            "epochgate.example": LOOPBACK,
            "9092": str(bootstrap),
            "9100-9109": f"{first}-{first + NODE_IDS - 1}",
        }
        addresses = [(IN_FRONT, bootstrap), (IN_FRONT, first)]
        with haproxy.running(snippet("haproxy-in-front.cfg", changes), addresses, folder / "haproxy"):
            yield


def _kroxylicious() -> Kroxylicious:
    try:
        return jars.ensure()
    except jars.KroxyliciousUnavailableError as reason:
        without(Need.KAFKA, reason)


def of_kroxylicious(way: Way) -> bool:
    """Whether Kroxylicious is on the way."""
    return "kroxylicious" in way


def cases(*ways: Way) -> list[Any]:
    """Parameters of a test; those with Kroxylicious run only with `--long`."""
    return [pytest.param(way, marks=[pytest.mark.long] if of_kroxylicious(way) else []) for way in ways]


def snippet(name: str, changes: Mapping[str, str]) -> str:
    """The page's block that begins with this name, with other addresses."""
    (block,) = re.findall(
        rf"^```\w*\n# {re.escape(name)}\n(.*?)^```",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    for old, new in changes.items():
        assert old in block, f"{PAGE.name}: {name} has no {old}"
        block = block.replace(old, new)
    return block


def _of_haproxy(security: Security) -> str:
    return f"HAPROXY_{security}"
