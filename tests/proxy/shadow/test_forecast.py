"""What runs come to and how they are summed up, on small examples and in general."""

import random
from itertools import repeat

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.image import MetadataImage, TopicImage
from protocol_codecs import Uuid
from proxy.shadow.group import ClassicGroup, Client
from proxy.shadow.outcome import outcome_of, today
from proxy.shadow.run import Join, Leave, play, run_of
from proxy.shadow.sampling import FEWEST_SAMPLES, MOST_SAMPLES, draw, forecast, samples_for, span
from proxy.shadow.view import ShadowView, Span
from tests.proxy.shadow.groups import random_group

TOPIC = Uuid(b"t" * 16)
SEEDS = st.integers(min_value=0, max_value=2**32)
PAUSE_MS = 1_000
ALWAYS = repeat(object=True)
"""The targets are computed after each change."""


def group(*assigned: tuple[int, ...], partitions: int = 6, static: bool = False, **fields) -> ClassicGroup:
    """A group whose members have these partitions of one topic."""
    clients = tuple(
        Client(
            f"m-{number}",
            f"c-{number}",
            f"i-{number}" if static else None,
            ("t",),
            None,
            {TOPIC: mine} if mine else {},
        )
        for number, mine in enumerate(assigned)
    )
    return ClassicGroup(
        **{
            "clients": clients,
            "image": MetadataImage([TopicImage(TOPIC, "t", partitions)]),
            "assignor": "uniform",
        }
        | fields
    )


def only(number: int) -> Span:
    return Span(low=number, high=number)


def told(of: ClassicGroup, group_id: str = "g") -> ShadowView:
    *_, view = forecast(of, group_id, 0.0, PAUSE_MS)
    assert view is not None
    return view


def test_the_first_client_joins_before_it_leaves_and_the_others_leave_first():
    run = run_of(group((0,), (1,)), [1, 0], ["a", "b"], ALWAYS, assignor_moves_epoch=True)

    assert run.changes == (
        Join(1, "epochgate-b", computes=True),
        Leave(1, computes=True),
        Leave(0, computes=False),
        Join(0, "epochgate-a", computes=True),
    )


def test_clients_with_instance_ids_take_their_own_places_and_keep_what_they_have():
    uneven = group((0, 1, 2, 3), (4,), (5,), static=True)

    view = told(uneven)

    assert (view.moved, view.fewest, view.most) == (only(0), only(1), only(4))


def test_range_for_clients_with_instance_ids_depends_on_the_broker_s_version():
    """Since 4.4 a vote for another assignor than the default moves the group epoch, so the targets are computed."""
    view = told(group((0, 1, 2, 3), (4,), (5,), static=True, assignor="range"))

    assert view.most is not None
    assert view.most.low <= 2 < 4 <= view.most.high


def test_a_group_that_moves_at_once_starts_from_nothing():
    run = run_of(
        group((0, 1, 2), (3, 4, 5), moves_at_once="user data"),
        [0, 1],
        ["a", "b"],
        ALWAYS,
        assignor_moves_epoch=True,
    )

    first, second = (dict(step.targets) for step in play(group((0, 1, 2), (3, 4, 5), moves_at_once="u"), run))

    assert {member: len(mine.get(TOPIC, ())) for member, mine in second.items()} == {
        "epochgate-a": 3,
        "epochgate-b": 3,
    }
    assert first is not None


def test_the_same_group_has_the_same_shadow_and_another_id_other_draws():
    some = group((0, 1), (2, 3), (4, 5))

    assert told(some) == told(some)
    assert {told(some, f"g-{number}").moved for number in range(8)} != {told(some).moved}


@settings(deadline=None, max_examples=60)
@given(SEEDS)
def test_every_partition_of_a_subscribed_topic_has_one_owner_after_every_run(seed: int):
    some = random_group(seed)
    run = draw(some, random.Random(seed), PAUSE_MS / 1000)  # noqa: S311  the same ones in every run
    *_, last = play(some, run)

    owned = [
        (topic, number)
        for mine in last.targets.values()
        for topic, numbers in mine.items()
        for number in numbers
    ]
    names = {name for client in some.clients for name in client.topics}
    topics = [some.image.by_name(name) for name in names]
    assert len(owned) == len(set(owned))
    if last.targets and not any(client.instance_id for client in some.clients):
        assert len(owned) == sum(topic.partitions for topic in topics if topic is not None)


@settings(deadline=None, max_examples=60)
@given(SEEDS)
def test_what_an_outcome_counts_fits_together(seed: int):
    some = random_group(seed)
    run = draw(some, random.Random(seed), PAUSE_MS / 1000)  # noqa: S311  the same ones in every run
    *_, outcome = outcome_of(some, run)
    now = today(some)

    assert outcome is not None
    assert 0 <= outcome.moved <= sum(now.counts)
    assert 0 <= outcome.racks_lost <= now.rack_local
    assert len(outcome.counts) == len(some.clients)
    assert 0 <= outcome.waits <= len(some.clients)
    # What did not move is still there.
    assert sum(outcome.counts) >= sum(now.counts) - outcome.moved


@given(st.lists(st.integers(0, 100), min_size=FEWEST_SAMPLES, max_size=MOST_SAMPLES), st.integers(100, 200))
def test_a_span_holds_what_was_drawn_and_stays_in_its_bounds(values: list[int], most: int):
    found = span(values, most)

    assert 0 <= found.low <= min(values) <= max(values) <= found.high <= most
    assert (found.low == found.high) == (min(values) == max(values))


def test_large_groups_have_fewer_draws():
    small, large = group((0,), (1,)), group(*((n,) for n in range(400)), partitions=4_000)

    assert samples_for(small) == MOST_SAMPLES
    assert samples_for(large) == FEWEST_SAMPLES


def test_pauses_grow_with_the_members_and_with_those_who_wait():
    few, many = told(group((0,), (1,))).pause, told(group(*((n,) for n in range(6)))).pause

    assert few is not None
    assert many is not None
    assert (few.group.low, many.group.low) == (1.0, 5.0)
    assert few.group.high < many.group.high
    assert few.member.high in {1.5, 4.5}


def test_a_shadow_is_small_in_json():
    view = told(group(*((n,) for n in range(150)), partitions=150))

    assert len(view.of_members) == 100
    assert len(msgspec.json.encode(view)) < 20_000
