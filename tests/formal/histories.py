"""Histories of the simulation as a module of TLA+: who works on what, and what is kept for whom, event by event."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from coordinator.classic_groups.group import ClassicGroupState
from tests.formal.checker import MODELS, Checked, check
from tests.simulation.plan import make_plan
from tests.simulation.simulation import play
from tests.simulation.standing import Pid
from tests.simulation.world import World

MODULE = MODELS / "TraceOwnership.tla"

Held = dict[str, frozenset[Pid]]
"""Partitions by client; clients without any are left out."""


class Moment(msgspec.Struct, frozen=True):
    """What each client works on within its contract, and what the group keeps for it. See ``Ownership.tla``."""

    own: Held
    kept: Held


def record(seed: int) -> list[Moment]:
    """Run a seed, and return its moments: one after each event that changed something."""
    world = World(make_plan(seed))
    moments = [Moment({}, {})]
    step = world.kernel.step

    def step_and_look() -> None:
        step()
        moment = _moment(world)
        if moments[-1] != moment:
            moments.append(moment)

    world.kernel.step = step_and_look  # type: ignore[method-assign]
    play(world)
    return moments


def _moment(world: World) -> Moment:
    broker, watch = world.broker, world.watch
    there = {
        topic.topic_id for topic in broker.image.topics.values()
    }  # a deleted topic's partitions are nobody's
    own = {
        client.name: frozenset(
            pid for pid in client.held if pid[0] in there and watch.ownership.has_right(client, pid)
        )
        for client in watch.standings
    }
    kept: Held = {}
    waits = broker.classic_group is not None and broker.classic_group.state is not ClassicGroupState.STABLE
    for member_id in () if waits else sorted(broker.members()):
        standing = watch.client_of.get(member_id)
        name = member_id if standing is None else standing.client.name
        kept[name] = kept.get(name, frozenset()) | broker.owned(member_id)
    if broker.group is None:  # a classic group keeps what its clients have not given up, by waiting for them
        kept = {name: kept.get(name, frozenset()) | own.get(name, frozenset()) for name in {*kept, *own}}
    return Moment(_without_empty(own), _without_empty(kept))


def _without_empty(held: Held) -> Held:
    return {name: partitions for name, partitions in held.items() if partitions}


def module_of(histories: Sequence[Sequence[Moment]]) -> str:
    """Return the module ``History`` with these histories."""
    both = [held for moments in histories for moment in moments for held in (moment.own, moment.kept)]
    clients = sorted({name for held in both for name in held})
    partitions = sorted({pid for held in both for mine in held.values() for pid in mine})
    names = {pid: f"p{number}" for number, pid in enumerate(partitions)}

    def function(held: Held) -> str:
        cases = [
            f'c = "{name}" -> {_set_of(names[pid] for pid in sorted(held[name]))}' for name in sorted(held)
        ]
        return "[c \\in HistoryClients |-> " + (
            f"CASE {' [] '.join(cases)} [] OTHER -> {{}}]" if cases else "{}]"
        )

    told = (
        "<<\n"
        + ",\n".join(f"[own |-> {function(one.own)}, kept |-> {function(one.kept)}]" for one in moments)
        + ">>"
        for moments in histories
    )
    return "\n".join(
        (
            "---- MODULE History ----",
            "EXTENDS Naturals",
            f"HistoryClients == {_set_of(clients)}",
            f"HistoryPartitions == {_set_of(names.values())}",
            f"Histories == <<{', '.join(told)}>>",
            "====",
            "",
        )
    )


def _set_of(texts: Iterable[str]) -> str:
    return "{" + ", ".join(f'"{text}"' for text in texts) + "}"


def follow(histories: Sequence[Sequence[Moment]], folder: Path) -> Checked:
    """Have TLC check that the histories are behaviours of ``Ownership.tla``."""
    (folder / "History.tla").write_text(module_of(histories))
    settings = (
        "INIT Init\nNEXT Next\nINVARIANTS TypeOK Exclusive\nPROPERTY IsOwnership\nCHECK_DEADLOCK FALSE\n"
    )
    return check(MODULE, settings, folder)
