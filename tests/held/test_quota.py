"""What counts as a step that is kept, and what does not: each violation is planted. Needs no Kafka."""

from fractions import Fraction

import pytest

from tests.held.looks import Look, Seen
from tests.held.quota import judge

HALF = Fraction(1, 2)
SECOND = 1_000_000_000


def seen(at_s: float, classic: str, translated: str, **ids: str) -> Look:
    """A look: each letter is a member, and its member id unless `ids` has another."""
    members = [
        Seen(place, ids.get(place, place), is_translated)
        for places, is_translated in ((classic, False), (translated, True))
        for place in places
    ]
    return Look(int(at_s * SECOND), tuple(members), "consumer" if translated else "classic")


def judged(*looks: Look) -> list[str]:
    return judge(looks, HALF).violations


def test_as_many_as_the_step_allows_are_none_too_many():
    assert judged(seen(1, "abcd", ""), seen(2, "cd", "ab"), seen(3, "cde", "abf")) == []


@pytest.mark.parametrize("looks", [[seen(1, "d", "abc")], [seen(1, "cd", "ab"), seen(2, "d", "abc")]])
def test_one_more_is_a_violation(looks):
    (violation,) = judged(*looks)
    assert "3 members are translated, the step allows 2" in violation


def test_a_share_is_rounded_up():
    assert judged(seen(1, "bc", "a"), seen(2, "b", "ac")) == []
    assert judged(seen(1, "bc", "a"), seen(2, "", "abc")) != []


def test_those_who_are_translated_stay_so_when_others_leave():
    assert judged(seen(1, "cd", "ab"), seen(2, "c", "ab"), seen(200, "", "ab")) == []


def test_nobody_is_added_while_there_are_too_many():
    (violation,) = judged(seen(1, "cd", "ab"), seen(2, "", "ab"), seen(200, "", "abe"))
    assert "while e may have been on the way" in violation


def test_nor_does_one_take_the_place_of_another_while_there_are_too_many():
    assert judged(seen(1, "cdef", "abg"), seen(2, "d", "ab"), seen(200, "d", "ag")) == []
    assert judged(seen(1, "def", "abc"), seen(2, "", "abc"), seen(200, "", "abg")) != []


def test_a_slot_of_a_larger_group_may_still_be_filled():
    looks = [seen(1, "bcdef", "a"), seen(2, "bc", "a"), seen(60, "", "abc")]
    assert judged(*looks) == []
    late = [*looks[:2], seen(100, "bc", "a"), seen(101, "", "abc")]
    assert judged(*late) != []


def test_a_client_with_two_memberships_counts_once():
    moving = (Seen("c", "classic-c", is_translated=False), Seen("c", "new-c", is_translated=True))
    look = Look(SECOND, (*moving, Seen("d", "d", is_translated=False)), "consumer")
    assert judged(look) == []
    assert judge([look], HALF).sizes == {2}


def test_a_new_process_of_an_instance_id_takes_its_place():
    found = judge([seen(1, "b", "a"), seen(2, "b", "a", a="another id")], HALF)
    assert (found.begun, found.taken_over, found.violations) == (1, 1, [])


def test_looks_without_an_answer_are_counted_and_forget_nothing():
    found = judge([seen(1, "cd", "ab"), Look(2 * SECOND, None, why="refused"), seen(3, "d", "ab")], HALF)
    assert (found.looks, found.unanswered, found.begun, found.violations) == (3, 1, 2, [])


def test_looks_are_told_apart_by_how_many_are_translated():
    found = judge([seen(1, "bcd", "a"), seen(2, "cd", "ab"), seen(3, "c", "ab"), seen(4, "", "ab")], HALF)
    assert (found.below, found.at_quota, found.above_since_some_left) == (1, 2, 1)


def test_every_look_is_counted_once():
    looks = [
        Look(0, None, why="refused"),
        seen(1, "bcdef", "a"),
        seen(2, "c", "ab"),
        seen(61, "", "ab"),
        seen(62, "", "abc"),
        seen(63, "", "abcd"),
    ]

    found = judge(looks, HALF)

    assert (found.unanswered, found.below, found.at_quota) == (1, 1, 1)
    assert (found.above_since_some_left, found.above_by_an_earlier_quota, len(found.violations)) == (1, 1, 1)
