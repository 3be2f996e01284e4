"""The configuration: one typed tree; each key has its meaning, unit and default.

``proxy.config.loader`` reads it from YAML and environment variables, ``epochgate config schema`` prints it as JSON
Schema, and ``docs/reference/configuration.md`` is generated from it. Where Kafka has a setting of the same meaning, the
default is Kafka's.
"""

from typing import Annotated

from msgspec import Meta

from proxy.config.exporter import Exporter
from proxy.config.fleet import Fleet
from proxy.config.limits import Limits
from proxy.config.network import NODE_ID, Address, Admin, Listener, Upstream
from proxy.config.reporting import JournalSection, Log, MetricsSection, Visibility
from proxy.config.section import Section

__all__ = [
    "NODE_ID",
    "Address",
    "Admin",
    "Config",
    "Drain",
    "Exporter",
    "Fleet",
    "JournalSection",
    "Limits",
    "Listener",
    "Log",
    "MetricsSection",
    "PolicySource",
    "Upstream",
    "Versions",
    "Visibility",
]

_ALL_INTERFACES = frozenset({"0.0.0.0", "::"})  # noqa: S104  addresses that cover all others


class PolicySource(Section, frozen=True, kw_only=True):
    """Which groups are translated."""

    file: Annotated[
        str | None,
        Meta(
            description="YAML file with the policy, relative to this file. `null`: groups are only observed."
        ),
    ] = None
    config_map: Annotated[
        str | None,
        Meta(
            description="In a pod: the ConfigMap that `file` is mounted from, with the file's name as its key. The "
            "proxy watches it at the Kubernetes API, so that a change is in force at once. The mounted file follows "
            "about a minute later; it is read at the start, and while the API is out of reach. The pod's service "
            "account must be allowed to list and watch it. `null`: only the file is read.",
        ),
    ] = None

    def __post_init__(self) -> None:
        """Refuse a ConfigMap without its file."""
        if self.config_map is not None and self.file is None:
            raise ValueError("`config_map` needs `file`, where the ConfigMap is mounted")


class Versions(Section, frozen=True, kw_only=True):
    """What clients are offered."""

    allow_unknown_apis: Annotated[
        bool,
        Meta(
            description="Offer clients the APIs of the broker that this version of Epochgate has not "
            "reviewed. They are passed on as they are; one that carries broker addresses would lead "
            "clients past the proxy.",
        ),
    ] = False


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
    fleet: Annotated[
        Fleet | None,
        Meta(
            description="The member log, by which replicas agree who serves a member (docs/how-to/fleet.md). "
            "`null`: replicas share nothing."
        ),
    ] = None
    exporter: Annotated[
        Exporter | None,
        Meta(
            description="The lag of all groups as metrics (docs/how-to/tools.md). `epochgate run` does not serve them, "
            "`epochgate exporter` does. `null`: that command refuses to start."
        ),
    ] = None
    sole_process: Annotated[
        bool,
        Meta(
            description="`false` if several proxies may serve the same clients (replicas behind one address): none of "
            "them then takes a silent client out of its group, which another may serve by now; the broker's "
            "`group.consumer.session.timeout.ms` does. With several `workers`, or with `fleet`, it is so whatever is "
            "said here."
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
        """Refuse an exporter without an account, and two listeners (or one and the admin port) on one port."""
        if self.exporter is not None and self.fleet is None:
            raise ValueError(
                "`exporter` asks brokers with the account of `fleet.kafka`, and `fleet` is missing"
            )
        ports = [(self.admin.bind, self.admin.port)]
        for listener in self.listeners:
            ports += ((listener.bind, port) for port in (listener.port, *listener.node_ports.values()))
        taken: dict[int, set[str]] = {}
        for bind, port in ports:
            others = taken.setdefault(port, set())
            if port and others and (bind in others or not _ALL_INTERFACES.isdisjoint({bind, *others})):
                raise ValueError(f"`listeners` and `admin`: port {port} on {bind} is used twice")
            others.add(bind)
