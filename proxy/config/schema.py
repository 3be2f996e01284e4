"""The configuration: one typed tree, each key with its meaning, unit and default.

``proxy.config.loader`` reads it from YAML and environment variables, ``epochgate config schema`` prints it,
and ``docs/reference/configuration.md`` is generated from it. Where Kafka has a setting of the same meaning, the default
is Kafka's.
"""

import re
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from proxy.config.host_names import check_host, is_host
from proxy.config.section import Section
from proxy.config.tls import ListenerTls, UpstreamTls

Port = Annotated[int, Meta(ge=0, le=65535)]
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+):(?P<port>\d{1,5})")
_NODE_RANGE = re.compile(r"(?P<low>\d{1,10})(?:-(?P<high>\d{1,10}))?", re.ASCII)
_HIGHEST_PORT = 65535
_HIGHEST_NODE_ID = 2**31 - 1
NODE_ID = "{node_id}"
"""Stands for a node's id in ``advertised_host``."""

_MOST_NODE_PORTS = 5000
_EVERYWHERE = "0.0.0.0"  # noqa: S104  clients are on other machines
_EVERY_ADDRESS = frozenset({_EVERYWHERE, "::"})


class Address(NamedTuple):
    """Where something listens: a host name or IP address without brackets, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read ``host:port``; an IPv6 address stands in brackets.

        :raises ValueError: the text is neither.
        """
        match = _ADDRESS.fullmatch(text)
        host, port = ("", 0) if match is None else (match["host"].strip("[]"), int(match["port"]))
        if not is_host(host) or not 0 < port <= _HIGHEST_PORT:
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
        """Refuse what is no address."""
        for text in self.bootstrap:
            Address.parse(text)

    @cached_property
    def addresses(self) -> tuple[Address, ...]:
        """The bootstrap brokers."""
        return tuple(Address.parse(text) for text in self.bootstrap)


class Listener(Section, frozen=True, kw_only=True, dict=True):
    """One set of ports that clients reach the cluster by: a bootstrap port, and one port for each node id."""

    bind: Annotated[str, Meta(description="Address to listen on.")] = _EVERYWHERE
    port: Annotated[
        Port, Meta(description="Bootstrap port, which clients are configured with. 0: any free port.")
    ] = 9092
    advertised_host: Annotated[
        str,
        Meta(
            min_length=1,
            description="Host name that clients are told for every node; they must be able to resolve it. "
            "`{node_id}` in it is replaced by the node's id, for load balancers that give each node a name.",
        ),
    ]
    nodes: Annotated[
        dict[str, Port],
        Meta(
            min_length=1,
            description='Which ports stand for which node ids: `{"0-9": 9100}` puts node 0 on 9100 and '
            "node 9 on 9109. A node outside the ranges is left out of what clients are told, and counted. "
            "Port 0: any free port for each.",
        ),
    ]
    tls: Annotated[ListenerTls | None, Meta(description="TLS towards clients; `null`: plain TCP.")] = None

    def __post_init__(self) -> None:
        """Refuse hosts that can't be, and such ranges: no numbers, overlapping, ports beyond the last."""
        check_host("bind", self.bind)
        check_host("advertised_host", self.advertised_host.replace(NODE_ID, "0"))
        ports = [port for port in self.node_ports.values() if port]
        if self.port:
            ports.append(self.port)
        if len(ports) != len(set(ports)):
            raise ValueError("`port` and `nodes` use the same port twice")

    @cached_property
    def node_ports(self) -> dict[int, int]:
        """The port of each node id that is in a range; 0 for any free one."""
        ports: dict[int, int] = {}
        for text, first_port in self.nodes.items():
            match = _NODE_RANGE.fullmatch(text)
            if match is None:
                raise ValueError(f'`nodes`: expected a node id or a range such as "0-9", got {text!r}')
            low, high = int(match["low"]), int(match["high"] or match["low"])
            if high > _HIGHEST_NODE_ID:
                raise ValueError(f"`nodes`: node ids end at {_HIGHEST_NODE_ID}, got {text!r}")
            if high < low or high - low >= _MOST_NODE_PORTS:
                raise ValueError(f"`nodes`: {text!r} is empty or has more than {_MOST_NODE_PORTS} ids")
            if first_port and first_port + high - low > _HIGHEST_PORT:
                raise ValueError(
                    f"`nodes`: {text!r} from port {first_port} on goes beyond port {_HIGHEST_PORT}"
                )
            for node_id in range(low, high + 1):
                if node_id in ports:
                    raise ValueError(f"`nodes`: node id {node_id} is in two ranges")
                ports[node_id] = first_port and first_port + node_id - low
        return ports


class Admin(Section, frozen=True, kw_only=True):
    """HTTP for operators: `/metrics`, `/healthz`, `/readyz`. It changes nothing."""

    bind: Annotated[str, Meta(description="Address to listen on; loopback unless told otherwise.")] = (
        "127.0.0.1"
    )
    port: Annotated[Port, Meta(description="Port. 0: any free port.")] = 9080

    def __post_init__(self) -> None:
        """Refuse what is no address; an empty one would be every address of the machine."""
        check_host("bind", self.bind)


class PolicySource(Section, frozen=True, kw_only=True):
    """Which groups are translated."""

    file: Annotated[
        str | None,
        Meta(
            description="YAML file with the policy, relative to this file. `null`: groups are only observed."
        ),
    ] = None


class Limits(Section, frozen=True, kw_only=True):
    """What a peer may ask for. Kafka's names and defaults are given where it has them."""

    frame_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            le=2**31 - 1,
            description="Largest request, in bytes (Kafka: `socket.request.max.bytes`). Requests are "
            "passed on in pieces as they arrive, so this is no bound of memory.",
        ),
    ] = 100 * 1024 * 1024
    first_frame_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Largest request of a connection that has not sent a valid one yet, in bytes.",
        ),
    ] = 2 * 1024 * 1024
    sasl_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Largest request or token of an authentication, in bytes (Kafka: "
            "`sasl.server.max.receive.size`).",
        ),
    ] = 512 * 1024
    decoded_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Largest response that is decoded here (Metadata, answers to the proxy's own requests), in "
            "bytes; these are held in memory whole.",
        ),
    ] = 32 * 1024 * 1024
    group_call_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Largest group call (JoinGroup, SyncGroup, OffsetCommit and so on) that is decoded here, in "
            "bytes. A larger one passes on undecoded, and ends its connection if its group is translated.",
        ),
    ] = 1024 * 1024
    group_call_max_elements: Annotated[
        int,
        Meta(
            ge=1000,
            description="Elements that the lists of a group call may have in all (topics, partitions, owned "
            "partitions in its subscriptions); with more of them it is too large as well. Decoding and handling "
            "them holds up all other connections meanwhile.",
        ),
    ] = 20_000
    first_group_call_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Largest group call that is decoded before the broker has answered a request on the "
            "connection, in bytes. A larger one waits until the proxy has asked the broker for Metadata there, which "
            "only clients get that have authenticated.",
        ),
    ] = 16 * 1024
    group_calls_held_max_bytes: Annotated[
        int,
        Meta(
            ge=1024 * 1024,
            description="Bytes of large group calls (above 128 KiB) that one process holds at once, from their first "
            "byte to their answer; beyond that connections wait their turn.",
        ),
    ] = 64 * 1024 * 1024
    in_flight_requests: Annotated[
        int,
        Meta(
            ge=1,
            description="Requests of one connection that may wait for their responses; while there are as "
            "many, nothing more is read from that client.",
        ),
    ] = 256
    first_request_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds in which a new connection must have sent its first request, TLS handshake included.",
        ),
    ] = 30.0
    request_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds in which the rest of a request must follow its beginning; for a larger one, so many "
            "for each MiB.",
        ),
    ] = 60.0
    idle_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds after which a connection is closed on which nothing is under way and nothing was sent "
            "(Kafka: `connections.max.idle.ms`), or whose client reads nothing of what waits for it.",
        ),
    ] = 600.0
    max_connections: Annotated[
        int,
        Meta(
            ge=1,
            description="Connections of clients that may be open (Kafka: `max.connections`); each worker takes its "
            "share. Never more than half of the descriptors that the process may have (`ulimit -n`).",
        ),
    ] = 2**31 - 1
    max_connections_per_address: Annotated[
        int,
        Meta(
            ge=1,
            description="Connections that one client address may have open (Kafka: `max.connections.per.ip`).",
        ),
    ] = 2**31 - 1
    session_timeout_min_ms: Annotated[
        int,
        Meta(
            ge=1,
            description="Shortest session timeout, in milliseconds, that a client of a translated group may ask for "
            "(Kafka: `group.min.session.timeout.ms`). Change it here if the brokers have another.",
        ),
    ] = 6_000
    session_timeout_max_ms: Annotated[
        int,
        Meta(
            ge=1,
            description="Longest session timeout, likewise (Kafka: `group.max.session.timeout.ms`).",
        ),
    ] = 1_800_000
    connection_max_age_s: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="Seconds after which a connection is closed at its next moment of rest, so that its client "
            "connects anew and a replica that was added gets its share; drawn from the last fifth before, for each. "
            "Never while a member that is reached through it is in a rebalance. `null`: never.",
        ),
    ] = None


class Versions(Section, frozen=True, kw_only=True):
    """What clients are offered."""

    allow_unknown_apis: Annotated[
        bool,
        Meta(
            description="Offer clients the APIs of the broker that this version of Epochgate has not "
            "reviewed. They are passed on as they are; one that carries broker addresses would lead "
            "clients past the proxy (those of share groups, which are known to, are never offered).",
        ),
    ] = False


class Log(Section, frozen=True, kw_only=True):
    """Log lines go to standard error."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Lines below this level are left out.")
    ] = "info"
    format: Annotated[
        Literal["auto", "console", "json"],
        Meta(
            description="`console` for people, `json` for machines. `auto`: `console` on a terminal, "
            "else `json`."
        ),
    ] = "auto"
    lines_per_s: Annotated[
        int,
        Meta(
            ge=1,
            description="Lines of one kind (`joined`, `connection closed`, ...) a second that are written, after ten "
            "times as many at once; what is beyond is left out, counted, and said in the next line of that kind.",
        ),
    ] = 100


class Visibility(Section, frozen=True, kw_only=True):
    """What is kept, logged and shown of groups and members, so that nobody can make it grow.

    What is beyond a bound is left out, and counted in `epochgate_bounds_hit_total`. Calls are not affected.
    """

    id_max_chars: Annotated[
        int,
        Meta(
            ge=64,
            le=32767,
            description="Characters of an id, a client's software or a reason that are kept; of a longer one its "
            "beginning, with `…` and a hash. A group with a longer id is in the log and the journal only.",
        ),
    ] = 255
    groups: Annotated[
        int,
        Meta(ge=1, description="Groups that are kept. Groups with members stay, newer ones are left out."),
    ] = 20_000
    groups_without_members: Annotated[
        int,
        Meta(
            ge=0,
            description="Groups without members that are kept, for an hour at most; those that never had a member are "
            "forgotten first.",
        ),
    ] = 1_000
    members: Annotated[int, Meta(ge=1, description="Members of all groups that are kept.")] = 50_000
    members_of_group: Annotated[int, Meta(ge=1, description="Members of one group that are kept.")] = 10_000
    partitions: Annotated[
        int,
        Meta(
            ge=0,
            description="Partitions of all members that are kept; what further members hold is shown as not known.",
        ),
    ] = 1_000_000
    partitions_of_event: Annotated[
        int, Meta(ge=1, description="Partitions that one event may name; of more of them none is named.")
    ] = 10_000
    events_max_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Memory for the latest events of groups (120 of each), in bytes, roughly; the oldest are "
            "forgotten first.",
        ),
    ] = 64 * 1024 * 1024
    page_groups: Annotated[
        int,
        Meta(
            ge=1,
            description="Groups in one answer of `/api/groups`; the next page is asked for with `after`.",
        ),
    ] = 1_000
    page_max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            description="Size in bytes at which an answer of `/api/groups` ends, however few groups it has (one at "
            "least).",
        ),
    ] = 16 * 1024 * 1024


class MetricsSection(Section, frozen=True, kw_only=True):
    """What `/metrics` and the status page tell of groups."""

    groups: Annotated[
        int,
        Meta(
            ge=0,
            description="Groups that have metrics of their own; the others share the label `other`.",
        ),
    ] = 200
    ask_brokers_every_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds between two questions to a broker about one group: how many of its members are "
            "classic and how many of the new protocol. Asked on a connection of one of the group's own members, "
            "with at most 20 groups a second. 0: never.",
        ),
    ] = 30.0


class JournalSection(Section, frozen=True, kw_only=True):
    """Where what happens to groups is written down (docs/reference/journal.md)."""

    path: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="Directory for the journal's files, relative to this file. `null`: no files."),
    ] = None
    topic: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="Topic of the cluster behind the proxy that gets the journal; it must exist. `null`: none."
        ),
    ] = None
    file_max_bytes: Annotated[
        int, Meta(ge=4096, description="Size in bytes at which a file is finished and the next one begun.")
    ] = 64 * 1024 * 1024
    file_max_age_s: Annotated[
        float, Meta(gt=0, description="Age in seconds at which a file is finished, however small it is.")
    ] = 60.0
    keep_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="Bytes of finished files of one replica that stay in the directory; the oldest are deleted "
            "beyond that, and counted. 0: all stay.",
        ),
    ] = 4 * 1024 * 1024 * 1024
    queue_events: Annotated[
        int,
        Meta(
            ge=1,
            description="Events that may wait to be written, for each of files and topic; what comes beyond is lost, "
            "and counted.",
        ),
    ] = 20_000
    queue_max_bytes: Annotated[
        int,
        Meta(ge=4096, description="The same in bytes of memory, roughly."),
    ] = 64 * 1024 * 1024


class Drain(Section, frozen=True, kw_only=True):
    """What happens at SIGTERM or SIGINT."""

    grace_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds that requests in flight have to finish; then connections are closed "
            "as they are.",
        ),
    ] = 20.0


class Config(Section, frozen=True, kw_only=True):
    """The whole file."""

    upstream: Upstream
    listeners: Annotated[tuple[Listener, ...], Meta(min_length=1)]
    admin: Admin = Admin()
    policy: PolicySource = PolicySource()
    limits: Limits = Limits()
    versions: Versions = Versions()
    metrics: MetricsSection = MetricsSection()
    visibility: Visibility = Visibility()
    journal: JournalSection = JournalSection()
    drain: Drain = Drain()
    log: Log = Log()
    sole_process: Annotated[
        bool,
        Meta(
            description="`false` if several proxies may serve the same clients (replicas behind one address): none of "
            "them then takes a silent client out of its group, which another may serve by now; the broker's "
            "`group.consumer.session.timeout.ms` does. With several `workers` it is so whatever is said here."
        ),
    ] = True
    workers: Annotated[
        int,
        Meta(
            ge=1,
            le=64,
            description="Processes that serve the ports together. All connections of one client address go to the "
            "same of them.",
        ),
    ] = 1

    def __post_init__(self) -> None:
        """Refuse two that listen on one port: listeners, or one of them and the admin port."""
        ports = [(self.admin.bind, self.admin.port)]
        for listener in self.listeners:
            ports += ((listener.bind, port) for port in (listener.port, *listener.node_ports.values()))
        taken: dict[int, set[str]] = {}
        for bind, port in ports:
            others = taken.setdefault(port, set())
            if port and others and (bind in others or not _EVERY_ADDRESS.isdisjoint({bind, *others})):
                raise ValueError(f"`listeners` and `admin`: port {port} on {bind} is used twice")
            others.add(bind)
