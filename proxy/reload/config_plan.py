"""Which keys of a changed configuration take effect in a running process, and which need a restart: compared first,
then planned, then done.

:func:`plan_of` compares two configurations and does nothing. ``epochgate config diff`` prints its result;
:mod:`proxy.server.reconfigure` does what it says, and all of it or nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import fields

from proxy.config.fleet import CREDENTIALS, Fleet, Property
from proxy.config.network import ALL_INTERFACES, Address, Listener, matched
from proxy.config.schema import Config
from proxy.config.section import Section


class Kind(StrEnum):
    """What a step changes."""

    LISTENER_OPENED = "listener opened"
    LISTENER_CLOSED = "listener closed"
    PORTS = "ports"
    """The ports of a listener's nodes, or their names."""
    ADDRESSES = "addresses"
    """What clients' metadata has for the nodes of a listener."""
    CONNECTIONS = "connections"
    """How a listener serves the connections that it accepts from now on: TLS, PROXY protocol, identity."""
    UPSTREAM = "upstream"
    LIMITS = "limits"
    ACCOUNT = "account"
    """An account that the proxy uses itself."""
    LOG = "log"
    DRAIN = "drain"
    RESTART = "restart"
    """Only a restart changes it, so a plan with such a step is not done at all."""
    UNUSED = "unused"
    """Nothing is done: another command reads it."""


class Step(msgspec.Struct, frozen=True):
    """One change. ``key`` is the configuration's key, by the number that a listener has in the new file."""

    kind: Kind
    key: str
    text: str
    """What is done, for people."""
    listener: int | None = None
    """The number of the listener in the new configuration; of a closed one in the old."""

    def __str__(self) -> str:
        """Return a line."""
        return f"{self.key}: {self.text}"


class Plan(msgspec.Struct, frozen=True):
    """The steps from one configuration to another. Empty if they are the same."""

    steps: tuple[Step, ...]

    @property
    def restarts(self) -> tuple[Step, ...]:
        """The changes that need a restart; unless this is empty, nothing is done."""
        return tuple(self.of(Kind.RESTART))

    @property
    def verdict(self) -> str:
        """Whether the plan is done, in a line."""
        if not self.steps:
            return "no difference"
        count, restarts = len(self.steps), len(self.restarts)
        if restarts:
            need = "needs" if restarts == 1 else "need"
            return f"nothing would be changed: {restarts} of {count} changes {need} a restart"
        return (
            f"{count} changes are made without a restart"
            if count > 1
            else "1 change is made without a restart"
        )

    def of(self, *kinds: Kind) -> Iterator[Step]:
        """Yield the steps of these kinds."""
        return (step for step in self.steps if step.kind in kinds)


_LISTENER_KINDS = {
    "nodes": Kind.PORTS,
    "nodes_by_name": Kind.PORTS,
    "bootstrap_name": Kind.PORTS,
    "node_ids": Kind.PORTS,
    "advertised_host": Kind.ADDRESSES,
    "advertised_port": Kind.ADDRESSES,
    "tls": Kind.CONNECTIONS,
    "proxy_protocol": Kind.CONNECTIONS,
    "identity": Kind.CONNECTIONS,
    "principal_mapping_rules": Kind.CONNECTIONS,
}
"""How each key of a listener is changed; another `bind` or `port` makes it another listener."""

_KINDS = {
    "upstream": Kind.UPSTREAM,
    "limits": Kind.LIMITS,
    "log": Kind.LOG,
    "drain": Kind.DRAIN,
    "identity.allow": Kind.ACCOUNT,
    "identity.deny": Kind.ACCOUNT,
    "identity.account.mechanism": Kind.ACCOUNT,
    "identity.account.username": Kind.ACCOUNT,
    "identity.account.password_file": Kind.ACCOUNT,
    "identity.token_mechanism": Kind.ACCOUNT,
    "identity.max_lifetime_ms": Kind.ACCOUNT,
    "identity.plaintext_upstream": Kind.ACCOUNT,
    "identity.mapped_file": Kind.ACCOUNT,
    "exporter": Kind.UNUSED,
}
"""The sections and keys that are changed without a restart; :func:`_kafka_steps` has the keys of the Kafka account."""

_KAFKA = ("fleet.kafka", "fleet.kafka_files", "fleet.kafka_environment")
"""Where the properties of the Kafka account come from."""

_RESTART = {
    "admin": "its port and its TLS are set up at the start",
    "policy": "only what the file says is read again, not where it is",
    "versions": "clients keep what they were offered",
    "metrics": "a running process counts by it",
    "visibility": "a running process counts by it",
    "shadow": "it is set up at the start",
    "journal": "its files and topic are opened at the start",
    "verify": "it is set up at the start",
    "preflight": "it is set up at the start",
    "fleet": "the member log is opened at the start",
    **dict.fromkeys(_KAFKA, "librdkafka takes it only when a client is made"),
    "limits.session_timeout_min_ms": "members in the member log are bound by it",
    "limits.session_timeout_max_ms": "members in the member log are bound by it",
    "identity": "it is set up at the start",
    "identity.principals": "the tokens of a running process are counted by it",
    "identity.tokens_per_s": "the tokens of a running process are counted by it",
    "control": "its port or socket is opened at the start",
    "hook": "it is set up at the start",
    "sole_process": "the groups of a running process go by it",
    "initial_rebalance_delay_ms": "the groups of a running process go by it",
    "workers": "ports are shared by their number",
    "experimental": "the policy was checked with it",
}
"""Those that need a restart, with the reason. Of a key's names in both tables the longest counts."""

_TEXTS = {
    Kind.UPSTREAM: "connections to brokers are opened with it from now on; those that are open stay",
    Kind.LIMITS: "connections are bound by it from now on",
    Kind.LOG: "lines are written by it from now on",
    Kind.DRAIN: "a drain that begins from now on has this time",
    Kind.ACCOUNT: "the proxy authenticates with it from now on",
    Kind.PORTS: "clients reach the nodes by it from now on",
    Kind.ADDRESSES: "clients' metadata has it from now on",
    Kind.CONNECTIONS: "connections accepted from now on are served with it; those that are open stay",
    Kind.UNUSED: "`epochgate run` does not use it",
}

_FOR_NEW_CLIENTS = "clients that connect from now on are identified by it"
_TEXTS_OF_KEYS = {
    "identity.allow": _FOR_NEW_CLIENTS,
    "identity.deny": _FOR_NEW_CLIENTS,
    "identity.mapped_file": _FOR_NEW_CLIENTS,
    "upstream.startup_timeout_s": "counts at the next start",
}
"""Where a key's text is another one than its kind's."""


def kind_of(key: str) -> tuple[Kind, str]:
    """Return how a key outside of `listeners` is changed, and a text for people."""
    name = max((name for name in (*_KINDS, *_RESTART) if _is_below(key, name)), key=len)
    if name in _RESTART:
        return Kind.RESTART, f"needs a restart: {_RESTART[name]}"
    return _KINDS[name], _TEXTS_OF_KEYS.get(key, _TEXTS[_KINDS[name]])


def reloaded_keys() -> tuple[str, ...]:
    """Return the sections and keys, beside `listeners`, that are changed without a restart."""
    return tuple(_KINDS)


def effects() -> dict[str, tuple[Kind, str]]:
    """Return how every section and key is changed, with a text for people; the longest name of a key counts."""
    found = {f"listeners[].{name}": (kind, _TEXTS[kind]) for name, kind in _LISTENER_KINDS.items()}
    found |= {key: kind_of(key) for key in (*_KINDS, *_TEXTS_OF_KEYS, *_RESTART)}
    account = Kind.ACCOUNT, _TEXTS[Kind.ACCOUNT]
    return found | {f"{key}.{name}": account for key in _KAFKA for name in sorted(CREDENTIALS)}


def plan_of(old: Config, new: Config) -> Plan:
    """Return what would have to be done for ``new`` to be in force in a process that serves by ``old``."""
    steps = [*_listener_steps(old.listeners, new.listeners)]
    for key, before, after in _changed_keys("", old, new):
        if key == "listeners" or key in _KAFKA:
            continue
        kind, text = kind_of(key)
        steps.append(Step(kind, key, f"{_change(key, before, after)}: {text}"))
    if old.fleet is not None and new.fleet is not None:
        steps += _kafka_steps(_properties(old.fleet), _properties(new.fleet))
    return Plan(tuple(steps))


def _listener_steps(old: Sequence[Listener], new: Sequence[Listener]) -> Iterator[Step]:
    continued = matched(old, new)
    yield from _taken_ports(old, new, continued)
    for number, one in enumerate(old):
        if number not in continued:
            text = "closed; its connections end at their next moment of rest"
            yield Step(Kind.LISTENER_CLOSED, f"listener {Address(one.bind, one.port)}", text, number)
    for number, one in enumerate(new):
        before = continued[number]
        if before is None:
            text = f"opened on {Address(one.bind, one.port)}"
            yield Step(Kind.LISTENER_OPENED, f"listeners[{number}]", text, number)
        else:
            yield from _listener_changes(number, old[before], one)


def _taken_ports(
    old: Sequence[Listener], new: Sequence[Listener], continued: Sequence[int | None]
) -> Iterator[Step]:
    """Yield a step for each new listener that needs a port which is open for something else.

    New ports are opened before any is closed, so that a plan is done whole or not at all.
    """
    open_ports: dict[int, list[tuple[str, tuple[int, int | None]]]] = {}
    for number, one in enumerate(old):
        for node_id, port in _ports(one):
            open_ports.setdefault(port, []).append((one.bind, (number, node_id)))
    for number, one in enumerate(new):
        taken = (
            port
            for node_id, port in _ports(one)
            for bind, owner in open_ports.get(port, ())
            if owner != (continued[number], node_id)
            and (bind == one.bind or not ALL_INTERFACES.isdisjoint({bind, one.bind}))
        )
        for port in islice(taken, 1):
            text = f"needs a restart: port {port} is open for another node or listener"
            yield Step(Kind.RESTART, f"listeners[{number}]", text, number)


def _ports(listener: Listener) -> Iterator[tuple[int | None, int]]:
    """Yield the ports that are configured with their node; None is the bootstrap port."""
    everything: list[tuple[int | None, int]] = [(None, listener.port), *listener.node_ports.items()]
    return ((node_id, port) for node_id, port in everything if port)


def _listener_changes(number: int, before: Listener, after: Listener) -> Iterator[Step]:
    same_nodes = before.node_ports == after.node_ports and set(before.node_ids_served) == set(
        after.node_ids_served
    )
    for name, old, new in _changed_keys("", before, after):
        if name in ("nodes", "node_ids") and same_nodes:
            continue  # the same in other ranges
        kind = _LISTENER_KINDS[name.partition(".")[0]]
        text = _ports_text(before, after) if name == "nodes" else _TEXTS[kind]
        yield Step(kind, f"listeners[{number}].{name}", f"{_change(name, old, new)}: {text}", number)


def _ports_text(before: Listener, after: Listener) -> str:
    opened = sorted(after.node_ports.items() - before.node_ports.items())
    closed = sorted(before.node_ports.items() - after.node_ports.items())
    texts = [f"{_nodes(opened)} opened"] if opened else []
    if closed:
        texts.append(f"{_nodes(closed)} closed, where connections end at their next moment of rest")
    return "; ".join(texts)


def _nodes(ports: Sequence[tuple[int, int]]) -> str:
    """Return the nodes and their ports, those in a row together."""
    rows: list[list[tuple[int, int]]] = []
    for node_id, port in ports:
        if rows and (node_id - 1, port - bool(port)) == rows[-1][-1]:
            rows[-1].append((node_id, port))
        else:
            rows.append([(node_id, port)])
    return _cut(", ".join(map(_row, rows)))


def _row(row: Sequence[tuple[int, int]]) -> str:
    (first, port), (last, last_port) = row[0], row[-1]
    if first == last:
        return f"node {first} on {port or 'a free port'}"
    return f"nodes {first}-{last} on {f'{port}-{last_port}' if port else 'free ports'}"


def _properties(fleet: Fleet) -> dict[str, tuple[str, Property]]:
    """Return where each property of the Kafka account comes from: the key, and what that has for it."""
    sources = zip(_KAFKA, (fleet.kafka, fleet.kafka_files, fleet.kafka_environment), strict=True)
    return {name: (key, given) for key, source in sources for name, given in (source or {}).items()}


def _kafka_steps(
    before: Mapping[str, tuple[str, Property]], after: Mapping[str, tuple[str, Property]]
) -> Iterator[Step]:
    """Yield the steps for the Kafka account, without values, which may be secrets."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        key, _ = after.get(name) or before[name]
        kind, text = kind_of(key)
        if name in CREDENTIALS and name in before and name in after:
            kind, text = Kind.ACCOUNT, _TEXTS[Kind.ACCOUNT]
        yield Step(kind, f"{key}.{name}", text)


def _changed_keys(prefix: str, old: Section, new: Section) -> Iterator[tuple[str, Any, Any]]:
    """Yield each key whose value differs, as deep as both have sections."""
    for field in fields(type(old)):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before == after:
            continue
        key = f"{prefix}{field.encode_name}"
        if isinstance(before, Section) and type(before) is type(after):
            yield from _changed_keys(f"{key}.", before, after)
        else:
            yield key, before, after


def _is_below(key: str, name: str) -> bool:
    return key == name or key.startswith(f"{name}.")


def _change(key: str, before: object, after: object) -> str:
    """Return what a change is, without secrets."""
    if isinstance(before, Section):
        return "removed"
    if isinstance(after, Section):
        return "added"
    if key == "hook.url":  # its path may be a secret
        return "another value"
    return f"{_shown(before)} -> {_shown(after)}"


_LONGEST_SHOWN = 60


def _shown(value: object) -> str:
    """Return a value as the file may have it, cut if it is long."""
    return _cut(msgspec.json.encode(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
