"""The network sections of the configuration: addresses, ``listeners``, the brokers (``upstream``), the admin port;
which of their keys go together.
"""

import ipaddress
import re
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, NamedTuple

from msgspec import Meta, field
from msgspec.structs import replace

from proxy.config.host_names import NODE, check_host, check_names, check_server_name, is_host
from proxy.config.identity import IdentityMode
from proxy.config.proxy_protocol import ProxyProtocol
from proxy.config.section import Section
from proxy.config.tls import ClientAuth, ListenerTls, UpstreamTls, with_absolute_paths

Port = Annotated[int, Meta(ge=0, le=65535)]
_ServedPort = Annotated[int, Meta(ge=1, le=65535)]
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+):(?P<port>\d{1,5})")
_NODE_RANGE = re.compile(r"(?P<low>\d{1,10})(?:-(?P<high>\d{1,10}))?", re.ASCII)
_MAX_PORT = 65535
_MAX_NODE_ID = 2**31 - 1
NODE_ID = "{node_id}"
"""Placeholder for a node's id in ``advertised_host``."""

_DEFAULT_NODE_IDS = ("0-99",)

_MAX_NODE_PORTS = 5000
_LOOPBACK = "127.0.0.1"
_ALL_INTERFACES = "0.0.0.0"  # noqa: S104  clients are on other machines
ALL_INTERFACES = frozenset({_ALL_INTERFACES, "::"})
"""Addresses that cover all others."""


class Address(NamedTuple):
    """A host name or IP address (without brackets), and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse ``host:port``; an IPv6 address is in brackets.

        :raises ValueError: the text has another form.
        """
        match = _ADDRESS.fullmatch(text)
        host, port = ("", 0) if match is None else (match["host"].strip("[]"), int(match["port"]))
        if not is_host(host) or not 0 < port <= _MAX_PORT:
            raise ValueError(f"expected host:port, got {text!r}")
        return cls(host, port)


class Upstream(Section, frozen=True, kw_only=True, dict=True):
    """The Kafka cluster behind the proxy."""

    bootstrap: Annotated[
        tuple[str, ...],
        Meta(min_length=1, description="Brokers to ask first, each `host:port`; tried in turn."),
    ]
    tls: Annotated[UpstreamTls | None, Meta(description="TLS towards the brokers; `null`: plain TCP.")] = None
    connect_timeout_s: Annotated[
        float, Meta(gt=0, description="Seconds that one attempt to connect to a broker may take.")
    ] = 10.0
    startup_timeout_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds in which a broker must have answered after the start, with retries and "
            "backoff between; after them the process exits with an error.",
        ),
    ] = 30.0

    def __post_init__(self) -> None:
        """Check the addresses."""
        for text in self.bootstrap:
            try:
                Address.parse(text)
            except ValueError as error:
                raise ValueError(f"`bootstrap`: {error}") from None

    @cached_property
    def addresses(self) -> tuple[Address, ...]:
        """The bootstrap brokers' addresses."""
        return tuple(Address.parse(text) for text in self.bootstrap)


class Listener(Section, frozen=True, kw_only=True, dict=True):
    """What clients reach the cluster by: a bootstrap port and one port for each node id, or one port for all of them,
    where the server name in the TLS handshake (SNI) selects the node.
    """

    bind: Annotated[str, Meta(description="Address to listen on.")] = _ALL_INTERFACES
    port: Annotated[
        Port, Meta(description="Bootstrap port, which clients are configured with. 0: any free port.")
    ] = 9092
    advertised_host: Annotated[
        str | None,
        Meta(
            description="Host name that clients are told for every node; they must be able to resolve it. "
            "`{node_id}` in it is replaced by the node's id, for load balancers that give each node a name. Needed "
            "unless there is `nodes_by_name`.",
        ),
    ] = None
    advertised_port: Annotated[
        _ServedPort | None,
        Meta(
            description="Port that clients are told for every node, where a gateway has all of them on one port and "
            "tells them apart by the host name (TLS SNI), so that `{node_id}` must be in `advertised_host`; or where "
            "clients reach the port of `nodes_by_name` under another number. `null`: the node's port in `nodes`, or "
            "`port` with `nodes_by_name`."
        ),
    ] = None
    nodes: Annotated[
        dict[str, Port],
        Meta(
            description='Which ports stand for which node ids: `{"0-9": 9100}` puts node 0 on 9100 and '
            "node 9 on 9109. A node outside the ranges is left out of what clients are told, and counted. "
            "Port 0: any free port for each. Needed unless there is `nodes_by_name`.",
        ),
    ] = field(default_factory=dict)
    nodes_by_name: Annotated[
        str | None,
        Meta(
            description="One port for all nodes (docs/how-to/one-port.md): the host name of each, with `{node}` in its "
            "first label for the node's id, as `b{node}.kafka.example`. Clients' metadata has these names with `port`, "
            "and the server name in the TLS handshake selects the node. A connection with another name, or "
            "without one, is refused before anything is sent to a broker. Needs `tls` with a certificate for all of "
            "the names, and `bootstrap_name`. `null`: each node has a port in `nodes`."
        ),
    ] = None
    bootstrap_name: Annotated[
        str | None,
        Meta(
            description="With `nodes_by_name`: the host name in the clients' `bootstrap.servers`, as `kafka.example`."
        ),
    ] = None
    node_ids: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description='With `nodes_by_name`: which node ids have a name, as `["0-9", "100"]`. A node outside is left '
            "out of clients' metadata, and counted; its name is refused.",
        ),
    ] = _DEFAULT_NODE_IDS
    tls: Annotated[ListenerTls | None, Meta(description="TLS towards clients; `null`: plain TCP.")] = None
    proxy_protocol: Annotated[
        ProxyProtocol | None,
        Meta(
            description="The clients' addresses are those that load balancers give by the PROXY protocol "
            "(docs/how-to/load-balancers.md). `null`: those of the TCP connections."
        ),
    ] = None
    identity: Annotated[
        IdentityMode | None,
        Meta(
            description="What brokers learn of a client's certificate (docs/how-to/client-certificates.md). "
            "`delegation_token`: the proxy authenticates its connection to the broker by a token of the certificate's "
            "principal. `mapped`: by the credentials that `identity.mapped_file` has for it. `none`: nothing; who "
            "clients are the brokers see by SASL. `null` is `none`, and refused with `client_auth: required`."
        ),
    ] = None
    principal_mapping_rules: Annotated[
        str,
        Meta(
            description="Which principal a certificate's subject is (Kafka: `ssl.principal.mapping.rules`), with "
            "`identity: delegation_token` or `mapped`: `DEFAULT`, or `RULE:pattern/replacement/` with `L` or `U` "
            "behind it, separated by commas. The patterns are RE2's."
        ),
    ] = "DEFAULT"

    def __post_init__(self) -> None:
        """Refuse hosts that can't be, and such ranges: no numbers, overlapping, ports beyond the last."""
        check_host("bind", self.bind)
        if self.nodes_by_name is None:
            self._check_ports()
        else:
            self._check_names()
        self._check_identity()
        taken = {self.port: "`port`"}
        for node_id, port in self.node_ports.items():
            if port and port in taken:
                raise ValueError(f"`nodes`: port {port} of node {node_id} is that of {taken[port]} too")
            taken[port] = f"node {node_id}"

    def _check_ports(self) -> None:
        if self.advertised_host is None:
            raise ValueError(
                "`advertised_host`: missing; expected the host name for clients, or `nodes_by_name`"
            )
        check_host("advertised_host", self.advertised_host.replace(NODE_ID, "0"))
        if self.advertised_port is not None and NODE_ID not in self.advertised_host:
            raise ValueError(f"`advertised_port` needs {NODE_ID} in `advertised_host`")
        if not self.nodes:
            raise ValueError("`nodes`: missing; expected the ports of the nodes, or `nodes_by_name`")
        for key, is_set in (
            ("bootstrap_name", self.bootstrap_name is not None),
            ("node_ids", self.node_ids != _DEFAULT_NODE_IDS),
        ):
            if is_set:
                raise ValueError(f"`{key}` needs `nodes_by_name`")

    def _check_names(self) -> None:
        template, bootstrap = self.nodes_by_name or "", self.bootstrap_name
        for key, is_set in (
            ("advertised_host", self.advertised_host is not None),
            ("nodes", bool(self.nodes)),
        ):
            if is_set:
                instead = "bootstrap_name" if key == "advertised_host" else "node_ids"
                raise ValueError(f"`{key}` has no place beside `nodes_by_name`; there it is `{instead}`")
        if self.tls is None:
            raise ValueError(
                "`nodes_by_name` needs `tls`: the name is in the TLS handshake; plaintext clients need `nodes`"
            )
        if bootstrap is None:
            raise ValueError("`nodes_by_name` needs `bootstrap_name`, the name that clients begin with")
        check_server_name("bootstrap_name", bootstrap)
        first_label = template.partition(".")[0]
        if template.count(NODE) != 1 or NODE not in first_label:
            raise ValueError(
                f"`nodes_by_name`: expected a host name with {NODE} once, in its first label, got {template!r}"
            )
        for node_id in (0, max(self._named_ids)):
            check_server_name("nodes_by_name", template.replace(NODE, str(node_id)))
        if len(self.server_names) != len(self._named_ids) + 1:
            raise ValueError(f"`bootstrap_name`: {bootstrap} is the name of a node too")

    @cached_property
    def _named_ids(self) -> frozenset[int]:
        """The ids in ``node_ids``."""
        found: set[int] = set()
        for text in self.node_ids:
            ids = _node_ids("node_ids", text)
            if not found.isdisjoint(ids):
                raise ValueError(f"`node_ids`: {text!r} has a node id that is in another range")
            found.update(ids)
        return frozenset(found)

    @cached_property
    def node_ids_served(self) -> Collection[int]:
        """The ids of the nodes that clients can reach."""
        return self.node_ports.keys() if self.nodes_by_name is None else self._named_ids

    @cached_property
    def server_names(self) -> dict[str, int | None]:
        """The node of each server name, in small letters; None for the bootstrap name. Empty if nodes have ports."""
        if self.nodes_by_name is None or self.bootstrap_name is None:
            return {}
        names: dict[str, int | None] = {self.host_of(node_id).lower(): node_id for node_id in self._named_ids}
        return names | {self.bootstrap_name.lower(): None}

    def host_of(self, node_id: int) -> str:
        """Return the host name of a node in clients' metadata."""
        if self.nodes_by_name is not None:
            return self.nodes_by_name.replace(NODE, str(node_id))
        return (self.advertised_host or "").replace(NODE_ID, str(node_id))

    @property
    def speaks_for_clients(self) -> bool:
        """Whether the proxy authenticates at brokers in the place of clients with certificates."""
        return self.identity in (IdentityMode.DELEGATION_TOKEN, IdentityMode.MAPPED)

    def _check_identity(self) -> None:
        client_auth = ClientAuth.NONE if self.tls is None else self.tls.client_auth
        if self.speaks_for_clients and client_auth is ClientAuth.NONE:
            raise ValueError(
                f"`identity: {self.identity}` needs `tls` with `client_auth: required` or `optional`"
            )
        if self.identity is None and client_auth is ClientAuth.REQUIRED:
            raise ValueError(
                "with `client_auth: required` say what brokers learn of the certificates: `identity: "
                "delegation_token`, `mapped` or `none`; with `none` ACLs do not see them "
                "(docs/how-to/client-certificates.md)"
            )
        if self.principal_mapping_rules != "DEFAULT" and not self.speaks_for_clients:
            raise ValueError("`principal_mapping_rules` needs `identity: delegation_token` or `mapped`")

    @cached_property
    def node_ports(self) -> dict[int, int]:
        """The port of each node id that is in a range; 0 for any free one."""
        ports: dict[int, int] = {}
        for text, first_port in self.nodes.items():
            ids = _node_ids("nodes", text)
            if first_port and first_port + ids[-1] - ids[0] > _MAX_PORT:
                raise ValueError(f"`nodes`: {text!r} from port {first_port} on goes beyond port {_MAX_PORT}")
            for node_id in ids:
                if node_id in ports:
                    raise ValueError(f"`nodes`: node id {node_id} is in two ranges")
                ports[node_id] = first_port and first_port + node_id - ids[0]
        return ports


def matched(old: Sequence[Listener], new: Sequence[Listener]) -> list[int | None]:
    """Return for each new listener the number of the old one that it continues, None if it is another.

    That has the same address and port. Those on any free port (0) are continued in their order.
    """
    left = list(range(len(old)))
    found: list[int | None] = []
    for one in new:
        number = next((n for n in left if (old[n].bind, old[n].port) == (one.bind, one.port)), None)
        if number is not None:
            left.remove(number)
        found.append(number)
    return found


def _node_ids(key: str, text: str) -> range:
    """Return the ids of a range such as ``0-9``, or of a single one."""
    match = _NODE_RANGE.fullmatch(text)
    if match is None:
        raise ValueError(f'`{key}`: expected a node id or a range such as "0-9", got {text!r}')
    low, high = int(match["low"]), int(match["high"] or match["low"])
    if high > _MAX_NODE_ID:
        raise ValueError(f"`{key}`: node ids end at {_MAX_NODE_ID}, got {text!r}")
    if high < low or high - low >= _MAX_NODE_PORTS:
        raise ValueError(f"`{key}`: {text!r} is empty or has more than {_MAX_NODE_PORTS} ids")
    return range(low, high + 1)


class Admin(Section, frozen=True, kw_only=True):
    """HTTP for operators: `/metrics`, `/healthz`, `/readyz`. It changes nothing."""

    bind: Annotated[str, Meta(description="Address to listen on; loopback unless told otherwise.")] = (
        _LOOPBACK
    )
    port: Annotated[Port, Meta(description="Port. 0: any free port.")] = 9080
    hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Names by which clients may call this port in the header `Host`, as `epochgate.example`, or "
            "`*.example` for all names below one; others are answered 421. IP addresses, names without a dot and the "
            "machine's own name always may."
        ),
    ] = ()
    tls: Annotated[
        ListenerTls | None,
        Meta(
            description="TLS; `null`: plain HTTP. With `client_auth: required` every path but `/healthz` and `/readyz` "
            "needs a certificate of `client_ca`; with `optional` a certificate or a token."
        ),
    ] = None
    token_file: Annotated[
        str | None,
        Meta(
            description="File with a bearer token of at least 16 characters, relative to this file, that others on the "
            "machine may not read. Every path but `/healthz` and `/readyz` needs it: as `Authorization: Bearer`, or as "
            "the password of `Basic` with any user name, for browsers. Several lines are several tokens, so that one "
            "can be replaced. Read again when it changes. `null`: no token."
        ),
    ] = None
    metrics_need_credentials: Annotated[
        bool,
        Meta(description="`false`: `/metrics` needs neither token nor certificate. It has group ids."),
    ] = True

    def __post_init__(self) -> None:
        """Refuse what is no address (an empty one would be all of them), and certificates that no client needs."""
        check_host("bind", self.bind)
        check_names(self.hosts)
        if self.tls is not None and self.tls.client_auth is ClientAuth.OPTIONAL and self.token_file is None:
            raise ValueError(
                "`client_auth: optional` needs `token_file`: without it no request needs credentials"
            )

    @property
    def needs_certificate(self) -> bool:
        """Whether a token is not enough."""
        return self.tls is not None and self.tls.client_auth is ClientAuth.REQUIRED

    @property
    def exposure(self) -> str | None:
        """What other machines can do that they should not; None if this port is on loopback, or guarded."""
        if _is_loopback(self.bind):
            return None
        if self.token_file is None and not self.needs_certificate:
            return "every machine that reaches it can read it: set `admin.token_file`, or client certificates"
        if self.tls is None:
            return "tokens for it cross the network without TLS: set `admin.tls`"
        return None

    def url(self, port: int | None = None, host: str | None = None) -> str:
        """The URL, by default for this machine: an address that is all addresses is then replaced by loopback."""
        host = host or (_LOOPBACK if self.bind in ALL_INTERFACES else self.bind)
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{Address(host, self.port if port is None else port)}"


def with_absolute_admin(admin: Admin, folder: Path) -> Admin:
    """Resolve the paths, which are relative to the configuration's folder."""
    return replace(
        admin,
        tls=admin.tls and with_absolute_paths(admin.tls, folder),
        token_file=None if admin.token_file is None else str(folder / admin.token_file),
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
