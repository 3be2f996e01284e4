"""Who owned which partition when: a group's latest events as lanes of bars, ready to be drawn.

Ownership is what clients may be working on (docs/reference/journal.md): it begins when a partition is assigned to a
client and ends when the client no longer reports it as owned. A time without an owner between two owners is a bar of
its own, so that pauses are visible.

The partitions of share groups have no owners, so they are not drawn. Of a Streams application the active tasks are,
of Kafka Connect the connectors and their tasks.
"""

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from proxy.groups.snapshot import EventView, GroupView
from translation.members.member_state import MemberEvent
from translation.partitions import Role, TopicPartitions

WINDOW_S = 15 * 60.0
LANES = 48
COLOURS = 8
BARS = 100
"""Most bars of one lane, the newest ones."""

_SHORTEST_S = 20.0
_SHARE = "share"
_DRAWN = frozenset({Role.PARTITION, Role.ACTIVE, Role.CONNECT})
_MARKS = frozenset(
    {"policy_changed", "fenced", "session_expired", "rebalance_expired", "rejoined_after_loss"}
)
_TICKS = 5
_NICE_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900)

Lane = tuple[str, int]
"""Topic and partition."""


class Bar(msgspec.Struct, frozen=True):
    """A time during which a partition had one owner, or none. ``left`` and ``width`` are percent of the window.

    ``colour`` is a number from 0 on, -1 for nobody.
    """

    left: float
    width: float
    owner: str
    colour: int
    seconds: float
    lasts: bool


class LaneView(msgspec.Struct, frozen=True):
    """The lane of one partition."""

    topic: str
    partition: int
    bars: tuple[Bar, ...]


class Mark(msgspec.Struct, frozen=True):
    """An event at one moment; ``left`` is percent of the window."""

    left: float
    text: str


class Owner(msgspec.Struct, frozen=True):
    """A member that has bars, also if it has left since."""

    name: str
    colour: int


class Timeline(msgspec.Struct, frozen=True):
    """The whole timeline. ``ticks`` label its axis; ``left_out`` counts partitions without a lane."""

    lanes: tuple[LaneView, ...]
    marks: tuple[Mark, ...]
    ticks: tuple[Mark, ...]
    owners: tuple[Owner, ...]
    seconds: float
    left_out: int
    nobody: str
    """The legend of a partition that no member of this proxy owns; perhaps a member does that comes another way."""


def timeline(group: GroupView, now: float) -> Timeline:
    """Compute the timeline of a group for the last 15 minutes, or as far as its events reach back.

    ``now`` is in seconds since 1970.
    """
    first = min((event.time_us / 1e6 for event in group.events), default=now)
    start = max(now - WINDOW_S, min(first - 1, now - _SHORTEST_S))
    names = client_names(group)
    spans = _spans(group, start, now)
    owners = sorted({owner for lane in spans.values() for _, _, owner in lane}, key=lambda one: names[one])
    numbers = {
        name: number % COLOURS for number, name in enumerate(dict.fromkeys(names[one] for one in owners))
    }
    colours = {owner: numbers[names[owner]] for owner in owners}
    scale = 100 / (now - start)
    nobody = "no owner here" if group.progress.elsewhere else "no owner"
    lanes = [
        LaneView(
            topic,
            partition,
            tuple(_bars(spans[topic, partition][-BARS:], start, now, names, colours, nobody)),
        )
        for topic, partition in sorted(spans)[:LANES]
    ]
    marks = [
        Mark((event.time_us / 1e6 - start) * scale, _mark_text(event, names))
        for event in group.events
        if (event.kind in _MARKS or _is_conversion(event)) and event.time_us / 1e6 >= start
    ]
    return Timeline(
        lanes=tuple(lanes),
        marks=tuple(marks),
        ticks=tuple(_ticks(now - start)),
        owners=tuple(Owner(name, colour) for name, colour in numbers.items()),
        seconds=now - start,
        left_out=max(0, len(spans) - LANES),
        nobody=nobody,
    )


def client_names(group: GroupView) -> dict[str, str]:
    """Return the name of the client behind each member id, for people.

    It is the client id. Clients that share one also have their instance id, or else the end of the first member id that
    is known of them. A client gets other member ids as it joins again and moves between the protocols: an id that
    begins after another one of the same client id has ended is taken for the same client.
    """
    lives = _lives(group)
    chains: dict[tuple[str, str], list[list[_Life]]] = {}
    for life in sorted(lives.values(), key=lambda one: (one.first, one.member)):
        of_client = chains.setdefault((life.client_id, life.instance), [])
        ended = [chain for chain in of_client if life.instance or chain[-1].last <= life.first]
        if ended:
            min(ended, key=lambda chain: chain[-1].last).append(life)
        else:
            of_client.append([life])
    clients = Counter(client_id for (client_id, _), of_client in chains.items() for _ in of_client)
    return {
        life.member: client_id
        if client_id and clients[client_id] == 1
        else f"{client_id} {instance or chain[0].member[-6:]}".strip()
        for (client_id, instance), of_client in chains.items()
        for chain in of_client
        for life in chain
    }


class _Life(NamedTuple):
    """A member id, and from when to when it was seen, in µs; a present one has no end."""

    member: str
    client_id: str
    instance: str
    first: float
    last: float


def _lives(group: GroupView) -> dict[str, _Life]:
    present = {member.id: member for member in group.members}
    found = {
        one.id: _Life(one.id, one.client_id or "", one.instance or "", -math.inf, math.inf)
        for one in present.values()
    }
    known: dict[str, _Life] = {}
    for event in group.events:
        if not event.member:
            continue
        last = math.inf if event.member in present else event.time_us
        before = known.get(event.member)
        first = event.time_us if before is None else before.first
        client_id = event.client_id or ("" if before is None else before.client_id)
        instance = event.instance or ("" if before is None else before.instance)
        known[event.member] = _Life(event.member, client_id, instance, first, last)
    return found | known


def _spans(group: GroupView, start: float, now: float) -> dict[Lane, list[tuple[float, float, str]]]:
    """Return for each partition who owned it from when to when."""
    owned: dict[str, dict[Lane, float]] = {}
    spans: dict[Lane, list[tuple[float, float, str]]] = {}
    with_events = {event.member for event in group.events if event.owned is not None}
    for member in group.members:
        if member.id not in with_events and member.protocol != _SHARE:  # its events were evicted
            owned[member.id] = dict.fromkeys(_lanes(member.partitions), start)

    def ends(member: str, lane: Lane, at: float) -> None:
        since = owned[member].pop(lane)
        if at > start:
            spans.setdefault(lane, []).append((max(since, start), at, member))

    for event in group.events:
        if not event.member or event.owned is None or event.protocol == _SHARE:
            continue
        at = event.time_us / 1e6
        held, now_held = owned.setdefault(event.member, {}), _lanes(event.owned)
        for lane in held.keys() - now_held:
            ends(event.member, lane, at)
        for lane in now_held - held.keys():
            held[lane] = at
    for member_id, held in owned.items():
        for lane in list(held):
            ends(member_id, lane, now)
    return {lane: sorted(some) for lane, some in spans.items()}


def _lanes(partitions: TopicPartitions | None) -> set[Lane]:
    return {
        (one.topic or one.id or "?", index)
        for one in partitions or ()
        if one.role in _DRAWN
        for index in one.partitions
    }


def _bars(
    spans: list[tuple[float, float, str]],
    start: float,
    now: float,
    names: dict[str, str],
    colours: dict[str, int],
    nobody: str,
) -> Iterable[Bar]:
    scale = 100 / (now - start)
    until = None
    for begin, end, owner in spans:
        if until is not None and begin > until:
            yield Bar(
                (until - start) * scale, (begin - until) * scale, nobody, -1, begin - until, lasts=False
            )
        yield Bar(
            (begin - start) * scale,
            max((end - begin) * scale, 0.05),
            names[owner],
            colours[owner],
            end - begin,
            lasts=end >= now,
        )
        until = max(end, until or end)
    if until is not None and until < now:
        yield Bar((until - start) * scale, (now - until) * scale, nobody, -1, now - until, lasts=True)


def _is_conversion(event: EventView) -> bool:
    return event.kind == "adopted" and event.reason.startswith(MemberEvent.CONVERTED)


def _mark_text(event: EventView, names: dict[str, str]) -> str:
    who = names.get(event.member, "")
    return " ".join(part for part in (event.kind.replace("_", " "), who, event.reason) if part)


def _ticks(seconds: float) -> Iterable[Mark]:
    """Yield marks at round times before now."""
    step = next((nice for nice in _NICE_S if seconds / nice <= _TICKS), _NICE_S[-1])
    number = 0
    while number * step <= seconds * 0.97:
        ago = number * step
        text = "now" if not ago else f"-{ago // 60} min" if step % 60 == 0 else f"-{ago} s"
        yield Mark(100 - 100 * ago / seconds, text)
        number += 1


def longest_without_owner(drawn: Timeline, since: float, now: float) -> float:
    """Return the longest time, in seconds, that a drawn partition was without an owner and that ended after ``since``.

    Times are in seconds since 1970. A rebalance is over when all members have rejoined; a partition that one of them
    has given up may reach its next owner later, at that one's next Heartbeat.
    """
    start = now - drawn.seconds
    return max(
        (
            bar.seconds
            for lane in drawn.lanes
            for bar in lane.bars
            if bar.colour < 0 and start + (bar.left + bar.width) / 100 * drawn.seconds >= since
        ),
        default=0.0,
    )
