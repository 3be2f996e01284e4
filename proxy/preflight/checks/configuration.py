"""Preflight: whether the proxy's configuration fits the cluster: ports for every broker, addresses, processes."""

from proxy.admin.preflight_report import Finding, Source
from proxy.config.schema import Listener
from proxy.groups.snapshot import GroupView
from proxy.preflight.checks.check import Check, Found, count, nodes
from proxy.preflight.checks.settings import shortest_session_ms
from proxy.preflight.facts import Facts, Unknown


def _hidden(facts: Facts) -> Found:
    for listener in () if facts.config is None else facts.config.listeners:
        hidden = sorted(
            one.node_id for one in facts.known_brokers() if one.node_id not in listener.node_ids_served
        )
        if hidden:
            by_name = listener.nodes_by_name is not None
            what, do = ("name", "") if by_name else ("port", ", and open the ports")
            example = f'node_ids: ["0-{hidden[-1]}"]' if by_name else f'nodes: {{"0-{hidden[-1]}": PORT}}'
            yield Finding(
                check="hidden_nodes",
                what=f"{nodes(hidden)} have no {what} at the listener on port {listener.port}: its clients are not "
                "told of them, and can't use what they lead",
                do=f"add their ids to `{'node_ids' if by_name else 'nodes'}` of the listener{do} (`{example}`)",
            )


def _loops(facts: Facts) -> Found:
    config = facts.config
    for listener in () if config is None else config.listeners:
        looped = [
            one.node_id
            for one in facts.known_brokers()
            if (one.host.lower(), one.port) == _advertised(listener, one.node_id)
        ]
        if looped:
            yield Finding(
                check="loop",
                what=f"{nodes(looped)} advertise what the proxy is to advertise for them: the proxy would connect to "
                "itself",
                do="give the brokers a listener of their own for the proxy (advertised.listeners), and name that in "
                "`upstream.bootstrap`",
            )


def _advertised(listener: Listener, node_id: int) -> tuple[str, int]:
    port = listener.port if listener.nodes_by_name is not None else listener.node_ports.get(node_id, 0)
    return listener.host_of(node_id).lower(), listener.advertised_port or port


def _ports(facts: Facts) -> Found:
    taken = sorted((facts.taken_ports or {}).items())
    if taken:
        address, why = taken[0]
        more = f" (and on {count(len(taken) - 1, 'other port')} of it)" if len(taken) > 1 else ""
        yield Finding(
            check="ports",
            what=f"the proxy can't listen on {address} of this machine{more}: {why}",
            do="end what listens there, or choose another port; with a proxy that runs already, name it by --proxy",
        )


def _failover(facts: Facts) -> Found:
    if not facts.several_processes():
        return
    shorter: list[str] = []
    if facts.proxy is not None and not isinstance(facts.proxy, Unknown):
        sessions = {
            group.id: (_shortest_of_clients(group), shortest_session_ms(facts, group.id))
            for group in facts.proxy.groups
        }
        known = {one: pair for one, pair in sessions.items() if None not in pair}
        shorter = [one for one, (ours, theirs) in known.items() if (ours or 0) < (theirs or 0)]
        if sessions and len(known) == len(sessions) and not shorter:
            return
    session = shortest_session_ms(facts, "")
    lasts = "as the broker's" if session is None else f"{session} ms, as the broker's"
    yield Finding(
        check="failover",
        what="several processes serve the same clients and share no member log: a client that is killed keeps its "
        f"partitions for {lasts} group.consumer.session.timeout.ms, whatever its own session timeout is",
        groups=tuple(sorted(shorter)),
        do="run the replicas as one fleet (`fleet`), or lower group.consumer.session.timeout.ms and its minimum on the "
        "brokers",
    )


def _shortest_of_clients(group: GroupView) -> int | None:
    """The shortest session timeout of the group's clients; None if one of them is not known."""
    told = [member.session_timeout_ms for member in group.members]
    return min(told) if told and min(told) > 0 else None


_SOURCES = frozenset({Source.CONFIGURATION})
CHECKS = (
    Check("hidden_nodes", "Every broker has a port at every listener.", _SOURCES | {Source.BROKERS}, _hidden),
    Check("loop", "No broker advertises the proxy's own address.", _SOURCES | {Source.BROKERS}, _loops),
    Check(
        "ports", "The ports of the configuration are free on this machine.", frozenset({Source.PORTS}), _ports
    ),
    Check(
        "failover",
        "A killed client's partitions are free after its own session timeout.",
        _SOURCES | {Source.BROKERS, Source.SETTINGS},
        _failover,
    ),
)
