"""Draws runs of a move at random, and sums up what they come to.

The draws of a group follow from its id, so a shadow is the same each time that it is computed from the same facts.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from coordinator.uuids import SeededUuids
from protocol_codecs.uuids import uuid_to_text
from proxy.shadow.group import ClassicGroup
from proxy.shadow.outcome import Outcome, outcome_of, today
from proxy.shadow.pause import ASSIGNMENT_INTERVAL_S, HEARTBEAT_S, JOIN_POLL_S, pause_of
from proxy.shadow.run import Run, Turn, run_of
from proxy.shadow.view import (
    MOST_COUNTS,
    MOST_MEMBERS,
    CountView,
    MemberForecast,
    PauseView,
    ShadowView,
    Span,
)
from translation.engine.member_ids import ISSUED_PREFIX

MOST_SAMPLES = 24
FEWEST_SAMPLES = 4
_WORK = 500_000
"""Members and partitions that all runs of a group may look at, in all their steps: about half a second of a core. The
largest groups take longer, with the fewest draws."""
_WAITS_COUNTED = 4
"""Runs in which it is counted who has to wait."""
_EXTENSION = {4: 3.5, 6: 1.6, 8: 1.0, 12: 0.65, 16: 0.46, 24: 0.31}
"""By how much of its width a span reaches beyond the draws on both sides, by their number.

So that 99.5 % of further draws from a normal distribution lie within it: Student's 99.75 % quantile times the standard
deviation of a draw, less half of the range that so many draws have on average.
"""


def samples_for(group: ClassicGroup) -> int:
    """How many runs are drawn for a group of this size."""
    members = len(group.clients)
    work = 2 * members * (members + group.partitions)
    wanted = max(FEWEST_SAMPLES, min(MOST_SAMPLES, _WORK // max(1, work)))
    return max(number for number in _EXTENSION if number <= wanted)


def draw(group: ClassicGroup, rng: random.Random, switch_pause_s: float) -> Run:
    """Draw a run: ids, the moments at which clients heartbeat and so hear of it, and the broker's version."""
    uuids = SeededUuids(rng.getrandbits(64))
    is_batched, moves_epoch = rng.choice(((False, False), (True, False), (True, True)))  # 4.2, 4.3, 4.4
    moments = _moments(group, rng, switch_pause_s)
    interval_s = ASSIGNMENT_INTERVAL_S if is_batched else 0.0
    turns, computed_s = [], 0.0
    for moment, following in zip(moments, [*moments[1:], None], strict=True):
        due_s = max(moment.at_s, computed_s + interval_s)
        if due_s > moment.at_s:
            due_s += rng.uniform(0, JOIN_POLL_S)
        computes = following is None or due_s < following.at_s
        if computes:
            computed_s = due_s
        member_id = ISSUED_PREFIX + uuid_to_text(uuids.next()) if moment.is_told else None
        turns.append(Turn(moment.client, member_id, computes))
    took_s = moments[-1].at_s - moments[0].at_s
    return run_of(group, turns, assignor_moves_epoch=moves_epoch, took_s=took_s)


class _Moment(NamedTuple):
    """When a client moves: because it is told, or because it rejoins and owns nothing."""

    at_s: float
    client: int
    is_told: bool


def _moments(group: ClassicGroup, rng: random.Random, switch_pause_s: float) -> list[_Moment]:
    """Who moves when, in the order of time. Each client heartbeats at a moment of its own, again and again."""
    beats = sorted((rng.uniform(0, HEARTBEAT_S), number) for number in range(len(group.clients)))
    if group.moves_at_once is not None:
        return [_Moment(at_s, client, is_told=True) for at_s, client in beats]
    found: list[_Moment] = []
    next_told_s, rounds = 0.0, 0
    while beats:
        stay = []
        for phase_s, client in beats:
            at_s = phase_s + rounds * HEARTBEAT_S
            owns = bool(group.clients[client].assigned) and group.cooperative
            if at_s >= next_told_s:
                found.append(_Moment(at_s, client, is_told=True))
                next_told_s = at_s + switch_pause_s
            elif not owns:
                found.append(_Moment(at_s, client, is_told=False))
            else:
                stay.append((phase_s, client))
        beats, rounds = stay, rounds + 1
    return found


def forecast(
    group: ClassicGroup, seed: str, computed_at: float, switch_pause_ms: int, samples: int | None = None
) -> Iterator[ShadowView | None]:
    """Compute a shadow step by step: yield None where other work may be done, and the shadow at last.

    Raises AssignmentImpossible.
    """
    rng = random.Random(seed)  # noqa: S311  reproducible on purpose
    outcomes: list[Outcome] = []
    took_s: list[float] = []
    waits = 0
    for number in range(samples or samples_for(group)):
        run = draw(group, rng, switch_pause_ms / 1000)
        took_s.append(run.took_s)
        for found in outcome_of(group, run, counts_waits=number < _WAITS_COUNTED):
            if found is not None:
                outcomes.append(found)
                waits = max(waits, found.waits)
            yield None
    leaves_empty = today(group).empty > 0 or any(one.empty for one in outcomes)
    pause = pause_of(group, waits, took_s, switch_pause_ms / 1000, leaves_empty=leaves_empty)
    yield _summed_up(group, outcomes, pause, computed_at)


def _summed_up(
    group: ClassicGroup, outcomes: Sequence[Outcome], pause: PauseView, computed_at: float
) -> ShadowView:
    now = today(group)
    members, held = len(group.clients), sum(now.counts)

    def told(value: Callable[[Outcome], int], most: int) -> Span:
        return span([value(one) for one in outcomes], most)

    fewest = told(lambda one: min(one.counts), group.partitions)
    most = told(lambda one: max(one.counts), group.partitions)
    named = any(client.rack is not None for client in group.clients)
    has_racks = any(racks for topic in group.image.topics.values() for racks in topic.racks)
    return ShadowView(
        computed_at=computed_at,
        why_not=None,
        assignor=group.assignor,
        samples=len(outcomes),
        members=members,
        partitions=group.partitions,
        empty_now=now.empty,
        empty=told(lambda one: one.empty, members),
        fewest_now=min(now.counts),
        most_now=max(now.counts),
        fewest=fewest,
        most=most,
        counts=_counts(outcomes, members),
        moved=told(lambda one: one.moved, held),
        rack_local_now=now.rack_local if named and has_racks else None,
        racks_lost=told(lambda one: one.racks_lost, now.rack_local) if named and has_racks else None,
        of_members=tuple(
            MemberForecast(
                id=client.member_id,
                client_id=client.client_id,
                instance=client.instance_id,
                partitions_now=now.counts[number],
                partitions=span([one.counts[number] for one in outcomes], most.high, fewest.low),
            )
            for number, client in enumerate(group.clients[:MOST_MEMBERS])
        ),
        pause=pause,
        at_once=group.moves_at_once,
        notes=_notes(group, now),
    )


def span(values: Sequence[int], most: int, least: int = 0) -> Span:
    """The interval in which the next draw lies in at least 99 of 100 groups, between ``least`` and ``most``.

    If all draws were equal it is that value.
    """
    low, high = min(values), max(values)
    margin = math.ceil(
        (high - low) * _EXTENSION[max(number for number in _EXTENSION if number <= len(values))]
    )
    return Span(low=max(least, low - margin), high=min(most, high + margin))


def _counts(outcomes: Sequence[Outcome], members: int) -> tuple[CountView, ...]:
    """How many members get how many partitions; nothing if that is too various to be listed."""
    tables = [Counter(one.counts) for one in outcomes]
    numbers = sorted(set().union(*tables))
    if len(numbers) > MOST_COUNTS:
        return ()
    return tuple(
        CountView(partitions=number, members=span([table[number] for table in tables], members))
        for number in numbers
    )


def _notes(group: ClassicGroup, now: Outcome) -> tuple[str, ...]:
    notes = []
    if len({client.topics for client in group.clients}) > 1:
        notes.append(
            "its members subscribe to different topics, so they may get different numbers of partitions"
        )
    if sum(now.counts) < group.partitions:
        notes.append("some of its partitions are assigned to nobody today")
    return tuple(notes)
