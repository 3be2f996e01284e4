"""What runs come to and how they are summed up, on small examples and in general."""

import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.image import MetadataImage, TopicImage
from protocol_codecs import Uuid
from proxy.shadow.group import ClassicGroup, Client
from proxy.shadow.outcome import outcome_of, today
from proxy.shadow.run import Join, Leave, Turn, play, run_of
from proxy.shadow.sampling import FEWEST_SAMPLES, MOST_SAMPLES, draw, forecast, samples_for, span
from proxy.shadow.view import ShadowView
from tests.proxy.shadow.groups import random_group

TOPIC = Uuid(b"t" * 16)
SEEDS = st.integers(min_value=0, max_value=2**32)
PAUSE_MS = 1_000


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
    *_, view = forecast(of, group_id, 0.0, PAUSE_MS)
    assert view is not None
    return view


def test_the_first_client_joins_before_it_leaves_and_the_others_leave_first():
    turns = [Turn(1, "epochgate-b", computes=True), Turn(0, None, computes=True)]
    run = run_of(group((0,), (1,)), turns, assignor_moves_epoch=True)

    assert run.changes == (
        Join(1, "epochgate-b", computes=True),
        Leave(1, computes=True),
        Leave(0, computes=False),
        Join(0, "m-0", computes=True),
    )


def test_the_first_client_with_an_instance_id_takes_its_own_place_the_others_leave_first():
    turns = [Turn(1, "epochgate-b", computes=True), Turn(0, "epochgate-a", computes=True)]
    run = run_of(group((0,), (1,), static=True), turns, assignor_moves_epoch=True)

    assert run.changes == (
        Join(1, "epochgate-b", computes=True),
        Leave(0, computes=False),
        Join(0, "epochgate-a", computes=True),
    )


def test_eager_clients_move_within_a_heartbeat_cooperative_ones_at_the_policy_s_pace():
    members = [(n,) for n in range(6)]

    def took(**fields: object) -> list[float]:
        some = group(*members, **fields)
        return [draw(some, random.Random(seed), 1.0).took_s for seed in range(20)]  # noqa: S311  reproducible

    assert max(took()) <= 3.0
    assert min(took(cooperative=True)) >= 5.0


def test_cooperative_clients_that_own_partitions_move_under_new_ids_and_eager_ones_may_keep_theirs():
    def kept(some: ClassicGroup) -> int:
        changes = draw(some, random.Random(1), 1.0).changes  # noqa: S311  reproducible
        return sum(isinstance(one, Join) and not one.member_id.startswith("epochgate-") for one in changes)

    members = [(n,) for n in range(6)]
    assert kept(group(*members, cooperative=True)) == 0
    assert kept(group(*members)) > 0
    assert kept(group(*members, (), (), (), cooperative=True)) > 0


def test_a_group_that_moves_at_once_starts_from_nothing():
    turns = [Turn(0, "epochgate-a", computes=True), Turn(1, "epochgate-b", computes=True)]
    run = run_of(group((0, 1, 2), (3, 4, 5), moves_at_once="u"), turns, assignor_moves_epoch=True)

    first, second = (dict(step.targets) for step in play(group((0, 1, 2), (3, 4, 5), moves_at_once="u"), run))

    assert {member: len(mine.get(TOPIC, ())) for member, mine in second.items()} == {
        "epochgate-a": 3,
        "epochgate-b": 3,
    }
    assert first is not None


def test_the_same_group_has_the_same_shadow_and_another_id_other_draws():
    some = group((0, 1), (2, 3), (4, 5))

    assert told(some) == told(some)
    assert told(some, "another") != told(some)


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


def test_a_member_is_told_no_more_and_no_less_than_any_member_gets():
    view = told(group((0, 1), (2, 3), (4,), (5,), assignor="range"))

    assert view.fewest is not None
    assert view.most is not None
    assert (view.fewest.low, view.most.high) == (1, 2)
    assert {(one.partitions.low, one.partitions.high) for one in view.of_members} == {(1, 2)}


def test_large_groups_have_fewer_draws():
    small, large = group((0,), (1,)), group(*((n,) for n in range(400)), partitions=4_000)

    assert samples_for(small) == MOST_SAMPLES
    assert samples_for(large) == FEWEST_SAMPLES


def test_pauses_grow_with_the_members_and_with_those_who_wait():
    few, many = (
        told(group((0,), (1,), cooperative=True)).pause,
        told(group(*((n,) for n in range(6)), cooperative=True)).pause,
    )

    assert few is not None
    assert many is not None
    assert 1.0 <= few.group.low < 5.0 <= many.group.low
    assert few.group.high < many.group.high
    assert few.member.high in {1.5, 4.5}
    # One that gets nothing may wait for all others.
    empty = told(group((0,), (), partitions=1, cooperative=True)).pause
    assert empty is not None
    assert empty.member.high == empty.group.high > 10.0


def test_a_shadow_is_small_in_json():
    view = told(group(*((n,) for n in range(150)), partitions=150))

    assert len(view.of_members) == 100
    assert len(msgspec.json.encode(view)) < 20_000
