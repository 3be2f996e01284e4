"""The configuration: one typed tree; each key has its meaning, unit and default.

``proxy.config.loader`` reads it from YAML and environment variables, ``epochgate config schema`` prints it as JSON
Schema, and ``docs/reference/configuration.md`` is generated from it. Where Kafka has a setting of the same meaning, the
default is Kafka's.
"""

from typing import Annotated

from msgspec import Meta

from proxy.config.control import Control, Hook
from proxy.config.exporter import Exporter
from proxy.config.fleet import Fleet
from proxy.config.identity import Identity, IdentityMode
from proxy.config.limits import Limits
from proxy.config.network import ALL_INTERFACES, NODE_ID, Address, Admin, Listener, Upstream
from proxy.config.reporting import JournalSection, Log, MetricsSection, PreflightSection, Verify, Visibility
from proxy.config.section import Section
from proxy.config.shadow import Shadow

__all__ = [
    "ALL_INTERFACES",
    "NODE_ID",
    "Address",
    "Admin",
    "Config",
    "Control",
    "Drain",
    "Exporter",
    "Fleet",
    "Hook",
    "Identity",
    "JournalSection",
    "Limits",
    "Listener",
    "Log",
    "MetricsSection",
    "PolicySource",
    "PreflightSection",
    "Shadow",
    "Upstream",
    "Verify",
    "Versions",
    "Visibility",
]


class PolicySource(Section, frozen=True, kw_only=True):
    """Which groups are translated."""

    file: Annotated[
        str | None,
        Meta(
            description="YAML file with the policy, relative to this file, or a directory whose `*.yaml` are the "
            "policy together, in the order of their names. `null`: groups are only observed."
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

    config_maps: Annotated[
        str | None,
        Meta(
            description="In a pod: a label selector, as `epochgate.io/policy-set=main`. The ConfigMaps with that label "
            "have the files of the policy together, each under its name as key, with a `manifest.json` among them, and "
            "are watched like `config_map`; they are in force once all that the manifest names are there. `file` is "
            "the directory that they are mounted at. The service account must be allowed to list and watch the "
            "ConfigMaps of its namespace. `null`: see `config_map`.",
        ),
    ] = None
    manifest_required: Annotated[
        bool,
        Meta(
            description="`true`: `file` is a directory, and is refused unless its `manifest.json` names every file "
            "with its digest, so that a set of which a part is missing never counts. `false`: a manifest that is "
            "there is checked, and may stand beside files that it does not name."
        ),
    ] = False

    def __post_init__(self) -> None:
        """Refuse a ConfigMap without its file, and two sources."""
        for key, name in (("config_map", self.config_map), ("config_maps", self.config_maps)):
            if name is not None and self.file is None:
                raise ValueError(f"`{key}` needs `file`, where it is mounted")
        if self.config_map is not None and self.config_maps is not None:
            raise ValueError("`config_map` and `config_maps`: only one of them can be watched")


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
    shadow: Shadow = Shadow()
    journal: JournalSection = JournalSection()
    verify: Verify = Verify()
    preflight: PreflightSection = PreflightSection()
    drain: Drain = Drain()
    log: Log = Log()
    fleet: Annotated[
        Fleet | None,
        Meta(
            description="The member log, by which replicas agree who serves a member (docs/how-to/fleet.md). "
            "`null`: replicas share nothing."
        ),
    ] = None
    control: Annotated[
        Control | None,
        Meta(
            description="Where people give commands about moves by steps (docs/how-to/control.md). `null`: nowhere; "
            "the policy file says all."
        ),
    ] = None
    hook: Annotated[
        Hook | None,
        Meta(
            description="What is asked before a step of a move begins (docs/how-to/control.md). It is here and not in "
            "the policy, because whoever may change which groups move should not choose where the proxy connects to. "
            "`null`: nothing."
        ),
    ] = None

    identity: Annotated[
        Identity | None,
        Meta(
            description="How the proxy speaks for clients with certificates (docs/how-to/client-certificates.md). "
            "`null`: it does not."
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
    initial_rebalance_delay_ms: Annotated[
        int,
        Meta(
            ge=0,
            description="Milliseconds that the first member of a translated group without members waits for others "
            "(Kafka: `group.initial.rebalance.delay.ms`), so that members that start together get their final share "
            "at once. As at a broker each further member prolongs the wait, here up to 14 s and a second less than "
            "three quarters of the first member's rebalance timeout. Change it here if the brokers have another. Less "
            "than 1500 is too short for brokers since 4.3, which assign once a second. 0: no member waits.",
        ),
    ] = 3_000
    workers: Annotated[
        int,
        Meta(
            ge=1,
            le=64,
            description="Processes that serve the ports together. All connections of one client go to the same of "
            "them: of an address and, without TLS, a client id.",
        ),
    ] = 1
    experimental: Annotated[
        bool,
        Meta(
            description="`true` lets the policy use what is an experiment: `mode: host` "
            "(docs/explanation/hosted-groups.md). Never for production data."
        ),
    ] = False

    def _misfits_of_identity(self) -> list[str]:
        found = []
        tls, identity = self.upstream.tls, self.identity
        is_verified = tls is not None and tls.verify_hostname
        is_exposed = identity is not None and not is_verified and not identity.plaintext_upstream
        needs_tls = "needs `upstream.tls` with `verify_hostname: true`"
        unless = "say `plaintext_upstream: true` in `identity` if that is meant (docs/how-to/client-certificates.md)"
        account = None if identity is None else identity.account
        if is_exposed and account is not None and account.mechanism == "PLAIN":
            found.append(
                f"`identity.account.mechanism`: PLAIN {needs_tls}, as it sends the password; {unless}"
            )
        for number, listener in enumerate(self.listeners):
            key = f"`listeners[{number}].identity`"
            if not listener.speaks_for_clients:
                continue
            if is_exposed:
                found.append(
                    f"{key}: {listener.identity} {needs_tls}, for whoever is between Epochgate and the brokers could "
                    f"act as every client; {unless}"
                )
            if self.identity is None:
                found.append(f"{key}: {listener.identity} needs the section `identity`")
            elif listener.identity is IdentityMode.DELEGATION_TOKEN and self.identity.account is None:
                found.append(f"{key}: delegation_token needs `identity.account`")
            elif listener.identity is IdentityMode.MAPPED and self.identity.mapped_file is None:
                found.append(f"{key}: mapped needs `identity.mapped_file`")
        return found

    def misfits(self) -> list[str]:
        """Return what does not fit together: an exporter without an account, and keys that listen on one port."""
        found: list[str] = []
        if self.exporter is not None and self.fleet is None:
            found.append("`exporter` asks brokers with the account of `fleet.kafka`, and `fleet` is missing")
        found += self._misfits_of_identity()
        ports = [("admin.port", self.admin.bind, self.admin.port)]
        if self.control is not None and self.control.bind is not None:
            ports.append(("control.port", self.control.bind, self.control.port))
        for number, listener in enumerate(self.listeners):
            key = f"listeners[{number}]"
            ports.append((f"{key}.port", listener.bind, listener.port))
            ports += ((f"{key}.nodes", listener.bind, port) for port in listener.node_ports.values())
        taken: dict[int, dict[str, str]] = {}
        clashes: dict[tuple[str, str], str] = {}
        for key, bind, port in ports:
            others = taken.setdefault(port, {})
            if port and others and (bind in others or not ALL_INTERFACES.isdisjoint({bind, *others})):
                other = others.get(bind) or next(iter(others.values()))
                clashes.setdefault((key, other), f"`{key}`: port {port} on {bind} is that of `{other}` too")
            others.setdefault(bind, key)
        return [*found, *clashes.values()]
