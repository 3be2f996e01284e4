"""What a changed configuration changes in a running process: compared first, then planned, then done.

:func:`plan_of` compares two configurations and does nothing. ``epochgate config diff`` prints its result;
:mod:`proxy.server.reconfigure` does what it says, and all of it or nothing.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import fields

from proxy.config.network import Address, Listener
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
        return tuple(step for step in self.steps if step.kind is Kind.RESTART)

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
"""How each key of a listener is changed; `bind` and `port` make it another listener."""

_KINDS = {
    "upstream": Kind.UPSTREAM,
    "limits": Kind.LIMITS,
    "log": Kind.LOG,
    "drain": Kind.DRAIN,
    "identity": Kind.ACCOUNT,
    "fleet.kafka": Kind.ACCOUNT,
    "fleet.kafka_files": Kind.ACCOUNT,
    "fleet.kafka_environment": Kind.ACCOUNT,
}
"""The sections and keys that are changed without a restart."""

_RESTART = {
    "identity.principals": "the tokens of a running process are counted by it",
    "identity.tokens_per_s": "the tokens of a running process are counted by it",
}
"""Keys below those that need a restart all the same, with the reason."""

_TEXTS = {
    Kind.UPSTREAM: "connections to brokers are opened with it from now on; those that are open stay",
    Kind.LIMITS: "connections are bound by it from now on",
    Kind.LOG: "lines are written by it from now on",
    Kind.DRAIN: "the next drain goes by it",
    Kind.ACCOUNT: "the proxy authenticates with it from now on",
    Kind.ADDRESSES: "clients' metadata has it from now on",
    Kind.CONNECTIONS: "connections accepted from now on are served with it; those that are open stay",
    Kind.RESTART: "needs a restart",
}


def plan_of(old: Config, new: Config) -> Plan:
    """Return what would have to be done for ``new`` to be in force in a process that serves by ``old``."""
    steps = [*_listener_steps(old.listeners, new.listeners)]
    for key, before, after in _changed_keys("", old, new):
        if key == "listeners":
            continue
        kind = next((kind for name, kind in _KINDS.items() if _is_below(key, name)), Kind.RESTART)
        why = next((why for name, why in _RESTART.items() if _is_below(key, name)), None)
        if (before is None or after is None) and key in ("identity", "fleet"):
            kind = Kind.RESTART
        if why is not None:
            kind = Kind.RESTART
        text = _TEXTS[kind] if why is None else f"{_TEXTS[kind]}: {why}"
        shown = "" if key.startswith("fleet.kafka") else f"{_shown(before)} -> {_shown(after)}: "
        steps.append(Step(kind, key, f"{shown}{text}"))
    return Plan(tuple(steps))


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


def _listener_steps(old: Sequence[Listener], new: Sequence[Listener]) -> Iterator[Step]:
    continued = matched(old, new)
    for number, one in enumerate(old):
        if number not in continued:
            text = "closed; its connections end at their next moment of rest"
            yield Step(Kind.LISTENER_CLOSED, f"listener {Address(one.bind, one.port)}", text, number)
    for number, one in enumerate(new):
        key, before = f"listeners[{number}]", continued[number]
        if before is None:
            yield Step(Kind.LISTENER_OPENED, key, f"opened on {Address(one.bind, one.port)}", number)
            continue
        yield from _listener_changes(key, number, old[before], one)


def _listener_changes(key: str, number: int, before: Listener, after: Listener) -> Iterator[Step]:
    nodes_before = {port: node_id for node_id, port in before.node_ports.items() if port}
    for node_id, port in after.node_ports.items():
        if port and nodes_before.get(port, node_id) != node_id:
            text = f"port {port} is of node {nodes_before[port]}, and another node's only after a restart"
            yield Step(Kind.RESTART, f"{key}.nodes", text, number)
            break
    for name, old, new in _changed_keys("", before, after):
        kind = _LISTENER_KINDS[name.partition(".")[0]]
        text = (
            _ports_text(before, after) if name == "nodes" else _TEXTS.get(kind, "clients reach nodes by it")
        )
        yield Step(kind, f"{key}.{name}", f"{_shown(old)} -> {_shown(new)}: {text}", number)


def _ports_text(before: Listener, after: Listener) -> str:
    opened = sorted(after.node_ports.items() - before.node_ports.items())
    closed = sorted(before.node_ports.items() - after.node_ports.items())
    texts = [f"{_nodes(opened)} opened"] if opened else []
    if closed:
        texts.append(f"{_nodes(closed)} closed, where connections end at their next moment of rest")
    return "; ".join(texts) or "the same ports"


def _nodes(ports: Sequence[tuple[int, int]]) -> str:
    """Return the nodes and ports of a list in short form."""
    (first, port), (last, last_port) = ports[0], ports[-1]
    if len(ports) == 1:
        return f"node {first} on {port}"
    return f"{len(ports)} nodes from {first} on {port} to {last} on {last_port}"


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


_LONGEST_SHOWN = 60


def _shown(value: object) -> str:
    """Return a value as the file has it, cut if it is long."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
