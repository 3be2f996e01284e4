"""What the real translation and the embedded coordinator do is a behaviour of ``Ownership.tla``."""

import pytest

from tests.formal.histories import Moment, follow, record

ONE, TWO = (b"t", 0), (b"t", 1)
GIVEN = Moment({"a": frozenset({ONE})}, {"a": frozenset({ONE})})
HISTORY = [
    Moment({}, {}),
    GIVEN,
    Moment({}, {"a": frozenset({ONE})}),
    Moment({}, {}),
    Moment({}, {"b": frozenset({ONE})}),
]


@pytest.mark.parametrize(
    "seeds", [range(1, 31), pytest.param(range(1, 401), marks=pytest.mark.long)], ids=["30", "400"]
)
def test_histories_of_the_simulation(seeds, tlc):
    histories = [record(seed) for seed in seeds]
    assert sum(map(len, histories)) > 10 * len(seeds)
    checked = follow(histories, tlc)
    assert checked.violated is None, checked.story[-1]
    assert checked.distinct == sum(map(len, histories))


def test_a_partition_is_given_to_another_after_it_was_given_up(tlc):
    assert follow([HISTORY], tlc).violated is None


@pytest.mark.parametrize(
    "moment",
    [
        Moment({"a": frozenset({ONE})}, {"b": frozenset({ONE})}),
        Moment(
            {"a": frozenset({ONE}), "b": frozenset({ONE})}, {"a": frozenset({ONE}), "b": frozenset({ONE})}
        ),
        Moment({"a": frozenset({ONE, TWO})}, {"a": frozenset({ONE})}),
        Moment({}, {"a": frozenset({ONE}), "b": frozenset({ONE})}),
    ],
    ids=["given away while it is worked on", "two owners", "worked on without being kept", "kept for two"],
)
def test_what_is_no_behaviour_is_found(moment, tlc):
    checked = follow([HISTORY, [Moment({}, {}), GIVEN, moment]], tlc)
    assert checked.violated is not None


def test_a_moment_knows_only_clients_that_have_something():
    assert all(held for moment in record(1) for held in (*moment.own.values(), *moment.kept.values()))
