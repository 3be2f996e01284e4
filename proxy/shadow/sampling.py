"""Computes what a move would change in an observed group (the forecast, ``shadow``): of a group that is converted in
place from one run, else from several drawn at random.

The draws of a group follow from its id, so a shadow is the same each time that it is computed from the same facts.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import msgspec

from coordinator.uuids import SeededUuids
from protocol_codecs.uuids import uuid_to_text
from proxy.shadow.group import ClassicGroup
from proxy.shadow.outcome import Outcome, outcome_of, today
from proxy.shadow.run import DEFAULT_ASSIGNOR, Join, Run, in_place
from proxy.shadow.view import (
    MOST_COUNTS,
    MOST_MEMBERS,
    CountView,
    MemberForecast,
    ShadowView,
    Span,
)
from translation.members.member_ids import ISSUED_PREFIX

MOST_SAMPLES = 24
FEWEST_SAMPLES = 4
_WORK = 500_000
"""Members and partitions that all runs of a group may look at, in all their steps: about half a second of a core. The
largest groups take longer, with the fewest draws."""
HEARTBEAT_S = 3.0
"""``heartbeat.interval.ms`` of Java's consumer and of librdkafka by default; clients do not tell it."""
ASSIGNMENT_INTERVAL_S = 1.0
"""``group.consumer.assignment.interval.ms`` since Kafka 4.3; before, 0."""
JOIN_POLL_S = 0.25
"""How often a client that waits in JoinGroup is heartbeated (``TranslatorSettings.join_poll_s``)."""
_RANGE = "range"
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


def draw(group: ClassicGroup, rng: random.Random) -> Run:
    """Draw a run: the broker's version, and of a group that has to be empty the ids and the moments of its clients."""
    is_batched, moves_epoch = rng.choice(((False, False), (True, False), (True, True)))  # 4.2, 4.3, 4.4
    if group.moves_at_once is None:
        return in_place(group, assignor_moves_epoch=moves_epoch)
    uuids = SeededUuids(rng.getrandbits(64))
    beats = sorted((rng.uniform(0, HEARTBEAT_S), number) for number in range(len(group.clients)))
    interval_s = ASSIGNMENT_INTERVAL_S if is_batched else 0.0
    joins, computed_s = list[Join](), 0.0
    for (at_s, client), (next_s, _) in pairwise([*beats, (math.inf, 0)]):
        due_s = max(at_s, computed_s + interval_s)
        if due_s > at_s:
            due_s += rng.uniform(0, JOIN_POLL_S)
        computes = not joins or due_s < next_s
        if computes:
            computed_s = due_s
        joins.append(Join(client, ISSUED_PREFIX + uuid_to_text(uuids.next()), computes))
    return Run(tuple(joins), moves_epoch)


def forecast(
    group: ClassicGroup, seed: str, computed_at: float, samples: int | None = None
) -> Iterator[ShadowView | None]:
    """Compute a shadow step by step: yield None where other work may be done, and the shadow at last.

    Raises AssignmentImpossible.
    """
    if group.moves_at_once is None:
        yield from _of_conversion(group, computed_at)
        return
    rng = random.Random(seed)  # noqa: S311  reproducible on purpose
    outcomes: list[Outcome] = []
    for _ in range(samples or samples_for(group)):
        for found in outcome_of(group, draw(group, rng)):
            if found is not None:
                outcomes.append(found)
            yield None
    yield _summed_up(group, outcomes, computed_at)


def _of_conversion(group: ClassicGroup, computed_at: float) -> Iterator[ShadowView | None]:
    """Compute the shadow of a group that is converted in place: all is known beforehand.

    As :mod:`translation.conversion.votes`: unless the policy names an assignor, the members vote for ``range`` only if
    that leaves them what they have.
    """
    for outcome in outcome_of(group, in_place(group)):
        yield None
        if outcome is None:
            continue
        if group.assignor == _RANGE and not group.assignor_is_set and outcome != today(group):
            other = msgspec.structs.replace(group, assignor=DEFAULT_ASSIGNOR)
            yield from _of_conversion(other, computed_at)
        else:
            yield _summed_up(group, [outcome], computed_at)


def _summed_up(group: ClassicGroup, outcomes: Sequence[Outcome], computed_at: float) -> ShadowView:
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
        at_once=group.moves_at_once,
        notes=_notes(group, now),
    )


def span(values: Sequence[int], most: int, least: int = 0) -> Span:
    """The interval in which the next draw lies in at least 99 of 100 groups, between ``least`` and ``most``.

    If all draws were equal it is that value.
    """
    low, high = min(values), max(values)
    if low == high:
        return Span(low=low, high=high)
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
