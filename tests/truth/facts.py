"""Each recorded series and panel that states a fact, and how the truth of it follows from what Kafka's tools say."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.truth.kafka_says import Group, Member, Truth
from tests.truth.plan import Kind

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "charts" / "epochgate" / "files"
RULES = FILES / "rules.yaml"
CLUSTER_BOARD, GROUP_BOARD = FILES / "dashboard.json", FILES / "dashboard-group.json"

Values = dict[tuple[str, ...], float]
"""By the values of a fact's labels."""

WITHOUT = -1.0
"""What panels show that lack something."""


class State(NamedTuple):
    """The cluster when all has settled."""

    truth: Truth
    modes: Mapping[str, str]
    """The policy's, by group."""
    alive: frozenset[int]
    """Replicas that run."""
    has_fleet: bool
    silent: int = 0
    """Translated members of killed replicas that no other replica has served since."""


class Fact(NamedTuple):
    """A query, and the truth of its result. A series that is missing is as good as one of 0, but not for ratios."""

    name: str
    expression: str
    labels: tuple[str, ...]
    truth: Callable[[State], Values]
    is_ratio: bool = False


# What the proxies see: members that come through them.


def _here(group: Group) -> list[Member]:
    return [one for one in group.members if not one.client.is_past]


def _seen(state: State) -> dict[str, Group]:
    """Groups with members at some replica."""
    return {group_id: group for group_id, group in state.truth.items() if _here(group)}


def _migrating(state: State) -> dict[str, Group]:
    """Those of them whose members have another protocol to move to; proxies let brokers describe them."""
    return {group_id: group for group_id, group in _seen(state).items() if group.protocol == "consumer"}


def _comes_as(member: Member) -> str:
    """The protocol by which a member comes, as the proxies count it."""
    match member.client.kind:
        case Kind.NATIVE:
            return "consumer"
        case Kind.CLASSIC:
            return "translated" if member.protocol == "consumer" else "classic"
        case kind:
            return kind


def _count(keys: Iterator[tuple[str, ...]]) -> Values:
    return dict(Counter(keys))


def _members_of_groups(state: State) -> Values:
    return _count(
        (group_id, _comes_as(one)) for group_id, group in _seen(state).items() for one in _here(group)
    )


def _members(state: State) -> Values:
    return _count((_comes_as(one), "Stable") for group in _seen(state).values() for one in _here(group))


def _broker_members(state: State) -> Values:
    return _count(
        (group_id, one.protocol) for group_id, group in _migrating(state).items() for one in group.members
    )


def _elsewhere(state: State) -> Values:
    return {
        (group_id,): len(group.members) - len(_here(group)) for group_id, group in _migrating(state).items()
    }


def _migrating_members(state: State) -> Values:
    return {(group_id,): len(group.members) for group_id, group in _migrating(state).items()}


def _migrated_members(state: State) -> Values:
    return {
        (group_id,): sum(one.protocol == "consumer" for one in group.members)
        for group_id, group in _migrating(state).items()
    }


def _migrated_of_groups(state: State) -> Values:
    everybody = _migrating_members(state)
    return {key: new / everybody[key] for key, new in _migrated_members(state).items()}


def _migrated(state: State) -> Values:
    everybody = sum(_migrating_members(state).values())
    return {(): sum(_migrated_members(state).values()) / everybody} if everybody else {}


def _modes(state: State) -> Values:
    return _count((state.modes[group_id],) for group_id in _seen(state))


def _not_translatable(state: State) -> Values:
    return _count(("Kafka Connect",) for group in _seen(state).values() if group.protocol == "connect")


def _nothing(_state: State) -> Values:
    return {}


# What the exporter sees: everything.


def _cluster_groups(state: State) -> Values:
    return _count((group.type, group.protocol) for group in state.truth.values())


def _cluster_members(state: State) -> Values:
    return _count(
        (group.type, group.protocol, one.protocol) for group in state.truth.values() for one in group.members
    )


def _cluster_migrating_members(state: State) -> Values:
    return {(): sum(len(one.members) for one in state.truth.values() if one.protocol == "consumer")}


def _cluster_migrated_members(state: State) -> Values:
    those = (one for group in state.truth.values() if group.protocol == "consumer" for one in group.members)
    return {(): sum(one.protocol == "consumer" for one in those)}


def _cluster_migrated(state: State) -> Values:
    everybody = _cluster_migrating_members(state)[()]
    return {(): _cluster_migrated_members(state)[()] / everybody} if everybody else {}


def _exported(state: State) -> dict[str, Group]:
    """Groups whose lag the exporter reads."""
    return {
        group_id: group for group_id, group in state.truth.items() if group.protocol in ("consumer", "none")
    }


def _exported_members(state: State) -> Values:
    return {(group_id,): len(group.members) for group_id, group in _exported(state).items()}


def _exported_lag(state: State) -> Values:
    return {(group_id,): group.lag or 0 for group_id, group in _exported(state).items()}


# The fleet.


def translated(truth: Truth) -> Iterator[Member]:
    """The members that come through proxies by the classic protocol, and are the broker's by the new one."""
    for group in truth.values():
        yield from (one for one in _here(group) if _comes_as(one) == "translated")


def _in_the_log(state: State) -> Values:
    """A member whose client ended with its replica stays in the log: no replica writes its end."""
    if not state.has_fleet:
        return {}
    served = _count(("served",) for _ in translated(state.truth))
    return served | ({("silent",): state.silent} if state.silent else {})


def _total(values: Callable[[State], Values]) -> Callable[[State], Values]:
    return lambda state: {(): sum(values(state).values())}


def _or_without(values: Callable[[State], Values], group: str) -> Callable[[State], Values]:
    return lambda state: {(): values(state).get((group,), WITHOUT)}


def _of(values: Callable[[State], Values], group: str) -> Callable[[State], Values]:
    """Those of a group, which has no label in a panel of one group."""
    return lambda state: {key[1:]: value for key, value in values(state).items() if key[0] == group}


def _sums(values: Callable[[State], Values]) -> Callable[[State], Values]:
    """By the first label alone."""

    def summed(state: State) -> Values:
        found = Counter[tuple[str, ...]]()
        for key, value in values(state).items():
            found[key[:1]] += value
        return dict(found)

    return summed


RECORDED: Mapping[str, tuple[tuple[str, ...], Callable[[State], Values]]] = {
    "epochgate:group_members:sum": (("group", "protocol"), _members_of_groups),
    "epochgate:group_broker_members:max": (("group", "type"), _broker_members),
    "epochgate:group_members_elsewhere": (("group",), _elsewhere),
    "epochgate:group_migrating_members": (("group",), _migrating_members),
    "epochgate:group_migrated_members": (("group",), _migrated_members),
    "epochgate:group_migrated:ratio": (("group",), _migrated_of_groups),
    "epochgate:migrated:ratio": ((), _migrated),
    "epochgate:members:sum": (("protocol", "state"), _members),
    "epochgate:groups": (("mode",), _modes),
    "epochgate:stuck_groups": ((), _nothing),
    "epochgate:not_translatable_groups": (("reason",), _not_translatable),
    "epochgate:cluster_groups:max": (("type", "protocol"), _cluster_groups),
    "epochgate:cluster_members:max": (("type", "protocol", "member_type"), _cluster_members),
    "epochgate:cluster_migrating_members": ((), _cluster_migrating_members),
    "epochgate:cluster_migrated_members": ((), _cluster_migrated_members),
    "epochgate:cluster_migrated:ratio": ((), _cluster_migrated),
    "epochgate:unowned_partitions": ((), _nothing),
}
_OF_MOVES = "of moves, gates and the proof, of which no tool of Kafka knows"
_FORECAST = "a forecast"
NOT_JUDGED_RULES: Mapping[str, str] = {
    "epochgate:cluster_ends_in:seconds": _FORECAST,
    "epochgate:compared_rebalances:max": _OF_MOVES,
    "epochgate:gates:max": _OF_MOVES,
    "epochgate:moves:max": _OF_MOVES,
    "epochgate:proof_groups:max": _OF_MOVES,
    "epochgate:rebalance_stopped:mean_seconds": _OF_MOVES,
    "epochgate:rebalances:max": _OF_MOVES,
    "epochgate:shadow_groups": _FORECAST,
    "epochgate:wave_groups:max": _OF_MOVES,
}
EXPORTED: Mapping[str, tuple[str, Callable[[State], Values]]] = {
    "kafka_consumergroup_members": ("consumergroup", _exported_members),
    "kafka_consumergroup_lag_sum": ("consumergroup", _exported_lag),
}
"""Series of the exporter, the larger one of two exporters."""

PANELS: Mapping[str, tuple[tuple[str, ...], Callable[[State], Values]]] = {
    "Migrated, whole cluster": ((), lambda state: _cluster_migrated(state) or {(): WITHOUT}),
    "Count of the cluster": ((), lambda _: {(): 1}),
    "Groups of the cluster": (("type", "protocol"), _cluster_groups),
    "Members of the cluster": (("type", "protocol", "member_type"), _cluster_members),
    "Groups": ((), _total(_modes)),
    "Members": ((), _total(_members)),
    "On the new protocol": ((), _migrated),
    "Stuck groups": ((), _nothing),
    "Ready": ((), lambda state: {(): len(state.alive)}),
    "Policy in use": ((), lambda state: {(): bool(state.alive)}),
    "Progress by group": (("group",), _migrated_of_groups),
    "Members by how they come": (("protocol",), _sums(_members)),
    "Groups by mode": (("mode",), _modes),
    "Members that do not come through the proxies": (("group",), _elsewhere),
    "Stuck members": (("group",), _nothing),
    "Not translatable, by reason": (("reason",), _not_translatable),
    "Translated members": ((), lambda state: {(): _in_the_log(state).get(("served",), 0)}),
    "Members in the log, by state": (("state",), _in_the_log),
    "Partitions without an owner": ((), _nothing),
}
"""Of the cluster's dashboard, by title."""

NOT_JUDGED: Mapping[str, str] = {
    title: why
    for why, titles in {
        "a rate or a duration, which no tool of Kafka gives": (
            "Rebalances per minute, by how members come",
            "How long members had nothing to do (median, 99 %)",
            "Rebalances by reason",
            "Rebalances by group",
            "Paused, in seconds per second",
            "Adoptions per minute",
            "Errors answered to clients",
            "Errors of brokers",
            "Passed through, by reason",
            "Internal errors",
            "Journal",
            "Requests",
            "Disconnects by cause",
            "Heartbeat: answer time (99 %)",
            "Trouble with brokers",
            "Time of the translation (99 %)",
            "Newest record",
            "Partitions of the log away, readers replaced",
            "Age of the newest record, by replica",
            "Age of the oldest unresolved record, by replica",
            "Records read per second, by kind",
            "Records written per second, by kind",
            "Answers of the log per minute",
            "Expiries and takeovers per minute",
            "Time to read the log at the start",
            "Claims refused per minute",
            "Rebalances per minute",
            "Commands and calls of the hook, per minute",
            "Failed reads of the journal, per minute",
            "Refused commits, per minute",
        ),
        "of the processes themselves": (
            "Epoch ahead of generation",
            "Connections",
            "Partitions of the log away",
            "Replicas that refuse the log",
            "Replicas in contact",
            "Replicas silent",
            "Members by replica",
            "Unresolved records, by replica",
            "Stuck members, and epochs ahead",
            "Brokers that can't be reached",
            "First certificate to expire",
            "Groups without series of their own",
            "Preflight",
            "Preflight, by how its checks ended",
            "Restarts of workers within an hour",
        ),
        _OF_MOVES: (
            "Aborted or rolled back",
            "Behind",
            "Gates by state",
            "Groups by verdict",
            "Held or paused",
            "How long a rebalance stops clients, by kind and phase (mean)",
            "Left out",
            "Moves by phase",
            "Moves with harm",
            "Moving",
            "Not proven",
            "Proven",
            "Rebalances counted, by kind and phase",
            "Rebalances, after the move against before",
            "Two owners",
            "Wait for an approval",
            "Wait for earlier events",
            "Waves",
        ),
        _FORECAST: (
            "Members that would have no partitions",
            "Partitions that would change their owner",
            "Done in, at this pace",
            "Observed groups, by what their forecast knows",
        ),
        "the ten highest of a series that is judged": ("Lag of groups",),
    }.items()
    for title in titles
}


def panels(file: Path) -> dict[str, list[str]]:
    """Return the queries of each panel of a dashboard."""
    return {
        panel["title"]: [target["expr"] for target in panel["targets"]]
        for panel in json.loads(file.read_text(encoding="utf-8"))["panels"]
        if panel["type"] != "row"
    }


def recorded(prefix: str = "epochgate:") -> list[Fact]:
    """Return the facts of the recorded series, whose names may have another prefix."""
    return [
        Fact(
            name,
            f"sum by ({','.join(labels)}) ({name.replace('epochgate:', prefix)})",
            labels,
            truth,
            is_ratio=name.endswith(":ratio"),
        )
        for name, (labels, truth) in RECORDED.items()
    ]


def all_facts(groups: Sequence[str]) -> list[Fact]:
    """Return all facts of a state with these groups."""
    found = recorded()
    found += [
        Fact(name, f"max by ({label}) ({name})", (label,), truth) for name, (label, truth) in EXPORTED.items()
    ]
    found.append(
        Fact("epochgate_group_unowned_partitions", "max(epochgate_group_unowned_partitions)", (), _nothing)
    )
    board = panels(CLUSTER_BOARD)
    found += [
        Fact(title, board[title][0].replace("$instance", ".*"), labels, truth, is_ratio=truth is _migrated)
        for title, (labels, truth) in PANELS.items()
    ]
    one_group = panels(GROUP_BOARD)
    for group in groups:
        found += [
            Fact(f"{title} ({group})", one_group[title][0].replace("$group", group), labels, truth)
            for title, (labels, truth) in of_group(group).items()
        ]
    return found


def of_group(group: str) -> Mapping[str, tuple[tuple[str, ...], Callable[[State], Values]]]:
    """Return the panels of the dashboard of one group."""

    def at_the_broker(state: State) -> Values:
        found = _migrating(state).get(group)
        return {(): WITHOUT if found is None else len(found.members)}

    def lag(state: State) -> Values:
        found = state.truth[group].lag if group in state.truth else None
        return {(): WITHOUT if found is None else found}

    return {
        "On the new protocol": ((), _or_without(_migrated_of_groups, group)),
        "Members at the broker": ((), at_the_broker),
        "Members past the proxies": ((), _or_without(_elsewhere, group)),
        "Mode": (("mode",), lambda state: {(state.modes[group],): 1} if group in _seen(state) else {}),
        "Stuck": ((), _nothing),
        "Members by how they come": (("protocol",), _of(_members_of_groups, group)),
        "Members as the broker reports them": (("type",), _of(_broker_members, group)),
        "Lag": ((), lag),
        "Not translatable": (
            ("reason",),
            lambda state: (
                {("Kafka Connect",): 1}
                if group in _seen(state) and state.truth[group].protocol == "connect"
                else {}
            ),
        ),
    }


def differences(fact: Fact, result: Sequence[Mapping[str, Any]], state: State) -> str:
    """Return how the result of a query differs from the truth; empty if it does not."""
    said: Values = {}
    for one in result:
        key = tuple(one["metric"].get(label, "") for label in fact.labels)
        said[key] = said.get(key, 0) + float(one["value"][1])
    truth = fact.truth(state)
    if not fact.is_ratio:
        said, truth = ({key: value for key, value in one.items() if value} for one in (said, truth))
    wrong = [
        f"{'/'.join(key) or 'it'} is {said.get(key, 'missing')} and not {truth.get(key, 'there')}"
        for key in sorted(said.keys() | truth.keys())
        if key not in said or key not in truth or abs(said[key] - truth[key]) > 1e-6
    ]
    return f"{fact.name}: {', '.join(wrong)}" if wrong else ""
