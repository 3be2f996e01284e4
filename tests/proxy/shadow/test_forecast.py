"""What runs come to and how they are summed up, on small examples and in general."""

import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.image import MetadataImage, TopicImage
from protocol_codecs import Uuid
from proxy.shadow.group import ClassicGroup, Client
from proxy.shadow.outcome import outcome_of, today
from proxy.shadow.run import Join, Run, play
from proxy.shadow.sampling import FEWEST_SAMPLES, MOST_SAMPLES, draw, forecast, samples_for, span
from proxy.shadow.view import ShadowView, Span
from tests.proxy.shadow.groups import random_group

TOPIC = Uuid(b"t" * 16)
SEEDS = st.integers(min_value=0, max_value=2**32)


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


def told(of: ClassicGroup, group_id: str = "g") -> ShadowView:
    *_, view = forecast(of, group_id, 0.0)
    assert view is not None
    return view


def test_a_group_that_is_converted_in_place_keeps_what_it_has_and_nothing_is_drawn():
    view = told(group((0, 3), (1, 4), (2, 5)))

    assert view.samples == 1
    assert view.moved == Span(low=0, high=0)
    assert [one.partitions for one in view.of_members] == [Span(low=2, high=2)] * 3


def test_members_vote_for_range_only_where_it_is_what_they_have_or_what_the_policy_says():
    dealt, ranges = ((0, 3), (1, 4), (2, 5)), ((0, 1), (2, 3), (4, 5))

    def voted(members, *, assignor_is_set: bool) -> tuple[str, int]:
        view = told(group(*members, assignor="range", assignor_is_set=assignor_is_set))
        assert view.moved is not None
        return view.assignor, view.moved.high

    assert voted(ranges, assignor_is_set=False) == ("range", 0)
    assert voted(dealt, assignor_is_set=False) == ("uniform", 0)
    assert voted(dealt, assignor_is_set=True) == ("range", 4)


def test_a_group_that_moves_at_once_starts_from_nothing():
    some = group((0, 1, 2), (3, 4, 5), moves_at_once="u")
    run = Run(
        (Join(0, "epochgate-a", computes=True), Join(1, "epochgate-b", computes=True)),
        assignor_moves_epoch=True,
    )

    *_, last = play(some, run)

    assert {member: len(mine.get(TOPIC, ())) for member, mine in last.items()} == {
        "epochgate-a": 3,
        "epochgate-b": 3,
    }


def test_the_same_group_has_the_same_shadow_and_another_id_other_draws():
    some = group(*((n,) for n in range(12)), partitions=13, moves_at_once="u")

    assert told(some) == told(some)
    assert told(some, "another") != told(some)


@settings(deadline=None, max_examples=60)
@given(SEEDS)
def test_every_partition_of_a_subscribed_topic_has_one_owner_after_every_run(seed: int):
    some = random_group(seed)
    run = draw(some, random.Random(seed))  # noqa: S311  the same ones in every run
    *_, last = play(some, run)

    owned = [
        (topic, number) for mine in last.values() for topic, numbers in mine.items() for number in numbers
    ]
    names = {name for client in some.clients for name in client.topics}
    topics = [some.image.by_name(name) for name in names]
    assert len(owned) == len(set(owned))
    if last and not any(client.instance_id for client in some.clients):
        assert len(owned) == sum(topic.partitions for topic in topics if topic is not None)


@settings(deadline=None, max_examples=60)
@given(SEEDS)
def test_what_an_outcome_counts_fits_together(seed: int):
    some = random_group(seed)
    run = draw(some, random.Random(seed))  # noqa: S311  the same ones in every run
    *_, outcome = outcome_of(some, run)
    now = today(some)

    assert outcome is not None
    assert 0 <= outcome.moved <= sum(now.counts)
    assert 0 <= outcome.racks_lost <= now.rack_local
    assert len(outcome.counts) == len(some.clients)
    # What did not move is still there.
    assert sum(outcome.counts) >= sum(now.counts) - outcome.moved


@given(st.lists(st.integers(0, 100), min_size=FEWEST_SAMPLES, max_size=MOST_SAMPLES), st.integers(100, 200))
def test_a_span_holds_what_was_drawn_and_stays_in_its_bounds(values: list[int], most: int):
    found = span(values, most)

    assert 0 <= found.low <= min(values) <= max(values) <= found.high <= most
    assert (found.low == found.high) == (min(values) == max(values))


def test_a_member_is_told_no_more_and_no_less_than_any_member_gets():
    view = told(group((0, 1), (2, 3), (4,), (5,), assignor="range", moves_at_once="u"))

    assert view.fewest is not None
    assert view.most is not None
    assert (view.fewest.low, view.most.high) == (1, 2)
    assert {(one.partitions.low, one.partitions.high) for one in view.of_members} == {(1, 2)}


def test_large_groups_have_fewer_draws():
    small, large = group((0,), (1,)), group(*((n,) for n in range(400)), partitions=4_000)

    assert samples_for(small) == MOST_SAMPLES
    assert samples_for(large) == FEWEST_SAMPLES


def test_a_shadow_is_small_in_json():
    view = told(group(*((n,) for n in range(150)), partitions=150))

    assert len(view.of_members) == 100
    assert len(msgspec.json.encode(view)) < 20_000
