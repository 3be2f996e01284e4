"""The rules of hosted Connect groups, one by one."""

import pytest

from protocol_codecs import ErrorCode
from protocol_codecs.all_messages import JoinGroupRequestProtocol
from tests.hosting.groups.connect.talk import (
    NONE,
    REBALANCE_MS,
    REJOIN,
    SESSION_MS,
    Talk,
    computed,
    group,
    works,
)
from tests.hosting.groups.connect.world import HEARTBEAT_MS, World

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def beat(talk: Talk, *names: str) -> list[ErrorCode]:
    return [talk.heartbeat(name) for name in names]


# -- who comes, and what the leader is told


def test_a_new_group_waits_for_a_session_for_all_that_go_on_running():
    talk = Talk()
    talk.join("a", "c", "c-0")
    talk.pass_ms(SESSION_MS - 1)
    talk.join("b", "c-1")
    assert talk.joined("a") is None
    talk.pass_ms(1)
    assert talk.joined("a").leader == "id-a"
    assert talk.shown == {"a": works("c", "c-0"), "b": works("c-1")}


def test_a_worker_that_comes_later_does_not_make_all_wait_again():
    talk = group(a=("c",))
    talk.join("b", session_timeout_ms=1_800_000)
    assert beat(talk, "a") == [REJOIN]
    assert talk.join("a", "c").leader == "id-a"


def test_a_static_member_is_refused():
    talk = Talk()
    assert talk.join("a", group_instance_id="one").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("metadata", [b"", b"\0\2", b"\xff\xff", b"\0\0"], ids=bytes.hex)
@pytest.mark.parametrize("name", ["default", "sessioned"])
def test_what_no_worker_of_the_incremental_protocols_writes_is_refused(name, metadata):
    talk = Talk()
    protocols = (JoinGroupRequestProtocol(name=name, metadata=metadata),)
    answer = talk.join("a", protocols=protocols)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_worker_that_has_read_furthest_leads():
    talk = Talk()
    talk.join("a", offset=3)
    talk.join("b", offset=5)
    talk.pass_ms(SESSION_MS)
    assert talk.joined("b").leader == "id-b"
    assert talk.joined("a") is None


def test_what_was_given_up_counts_until_the_worker_says_so():
    talk = group(a=("c",), b=("d",))
    talk.join("a", "c")
    talk.lead("a", b=((), ("d",)))
    assert beat(talk, "b") == [REJOIN]
    talk.join("b", "d")
    assert talk.sync("b").revoked == works("d")
    assert talk.join("a", "c") is None, "the leader is told nothing that may change"
    talk.join("b")
    assert talk.joined("a") is not None
    assert talk.shown == {"a": works("c"), "b": works()}


# -- who rejoins


def test_nobody_rejoins_but_the_leader_and_who_gets_something():
    world = World(1)
    workers = [world.add(max_delay_ms=20_000) for _ in range(5)]
    world.run(12_000)
    world.configure(**{f"c{number}": 1 for number in range(10)})
    world.run(60_000)
    leader = next(one for one in workers if one.leads)
    victim = next(one for one in workers if one is not leader)
    before = {one: (one.joins, set(one.runs)) for one in workers}
    victim.die()
    world.run(60_000)
    world.settled()
    joins = {one: one.joins - before[one][0] for one in workers if one.alive and one is not leader}
    changed = {one for one in joins if set(one.runs) != before[one][1]}
    assert leader.joins - before[leader][0] == 2, "when it was lost, and when its time was over"
    assert {one for one in joins if joins[one]} == changed
    assert sum(joins.values()) == len(changed)


def test_the_leader_is_told_when_all_others_have_what_it_gave():
    talk = group(a=("c",), b=("d",))
    talk.join("a", "c")
    talk.lead("a", b=(("e",), ()))
    talk.join("z")
    assert beat(talk, "a", "b") == [NONE, REJOIN]
    talk.join("b", "d")
    assert beat(talk, "a") == [NONE]
    talk.sync("b")
    assert beat(talk, "a") == [REJOIN]


def test_followers_are_not_told_when_the_leader_joins_again():
    talk = group(a=("c",), b=("d",))
    talk.join("a", "c")
    assert talk.lead("a", delay_ms=9_000, b=(("e",), ())).delay_ms == 9_000
    beat(talk, "b")
    talk.join("b", "d")
    assert talk.sync("b").delay_ms == 0


def test_all_are_told_of_another_leader():
    talk = group(a=("c",), b=("d",), c=("e",))
    talk.leave("a")
    assert beat(talk, "c", "b") == [NONE, REJOIN]
    assert talk.join("b", "d").leader == "id-b"
    talk.lead("b", b=(("c",), ()))
    assert beat(talk, "c") == [REJOIN]
    talk.join("c", "e")
    assert (talk.sync("c").leader, talk.sync("c")) == ("id-b", REJOIN)


def test_a_follower_that_has_read_on_makes_the_leader_compute():
    talk = group(a=("c",), b=("d",))
    assert talk.join("b", "d", offset=2) is None
    assert beat(talk, "a") == [REJOIN]


def test_a_follower_that_says_nothing_new_is_answered_at_once():
    talk = group(a=("c",), b=("d",))
    talk.join("b", "d")
    assert talk.sync("b").leader == "id-a"
    assert beat(talk, "a") == [NONE]


def test_who_has_not_read_far_enough_hears_that_alone():
    talk = group(a=("c",), b=("d",))
    talk.join("a", "c")
    assert talk.lead("a", error=1, offset=7).error == 1
    assert beat(talk, "b") == [NONE]
    assert talk.join("b", "d") is None, "it waits for what is computed"
    assert talk.join("a", "c", offset=7) is not None


# -- nothing runs twice


def test_what_a_late_worker_runs_is_taken_from_a_part_that_waits():
    talk = group(a=("c",), b=("d",))
    talk.join("a", "c")
    talk.lead("a", b=(("e", "f"), ()))
    talk.join("z", "e")
    beat(talk, "b")
    talk.join("b", "d")
    assert talk.sync("b").assigned == works("f")


def test_what_a_worker_runs_that_came_during_a_round_is_not_given():
    talk = group(a=("c",), b=("d",))
    talk.join("a", "c")
    talk.join("z", "e")
    assert talk.lead("a", a=(("e", "f"), ())).assigned == works("f")
    assert beat(talk, "a") == [REJOIN], "the next round has that worker in it"


def test_a_difference_is_not_for_a_worker_that_has_said_something_else_since():
    talk = group(a=("c",), b=("d",))
    talk.join("a", "c")
    assert talk.join("b", "d", "x") is None
    talk.lead("a", b=((), ("d",)))
    assert talk.joined("b") is None
    talk.join("a", "c")
    assert talk.shown["b"] == works("d", "x")


def test_what_a_dead_leader_gave_and_nobody_has_got_is_given_by_the_next_one():
    talk = group(a=("c",), b=("d",), c=())
    talk.join("a", "c")
    talk.lead("a", c=(("e",), ()))
    talk.leave("a")
    assert beat(talk, "c", "b") == [NONE, REJOIN]
    assert talk.join("c") is None
    talk.join("b", "d")
    assert talk.lead("b", b=(("e",), ())).assigned == works("e")
    assert talk.joined("c") is not None
    assert talk.sync("c").assigned == works()


def test_what_a_lost_answer_gave_counts_until_the_worker_says_that_it_has_it_not():
    talk = group(a=("c",), b=("d",))
    talk.join("a", "c")
    talk.lead("a", b=(("e",), ()))
    beat(talk, "b")
    talk.join("b", "d")
    talk.sync("b")
    talk.join("a", "c")
    assert talk.shown["b"] == works("d", "e")
    talk.lead("a")
    assert talk.join("b", "d") is None, "news: it has not got it"


def test_what_a_newcomer_runs_whose_connection_ends_is_for_nobody_until_it_comes_again():
    talk = group(a=("c",), b=("d",))
    talk.join("z", "e")
    talk.disconnect("z")
    assert beat(talk, "a") == [NONE]
    talk.join("z", "e")
    assert beat(talk, "a") == [REJOIN]
    talk.join("a", "c")
    assert talk.shown["z"] == works("e")


def test_what_a_newcomer_runs_whose_connection_ends_is_free_after_its_session():
    talk = group(a=("c",), b=("d",))
    talk.join("a", "c")
    talk.join("z", "e")
    talk.disconnect("z")
    assert talk.lead("a", a=(("e", "f"), ())).assigned == works("f")
    for _ in range(SESSION_MS // 1_000):
        assert beat(talk, "a", "b") == [NONE, NONE]
        talk.pass_ms(1_000)
    assert beat(talk, "a") == [REJOIN]
    talk.join("a", "c", "f")
    assert talk.lead("a", a=(("e",), ())).assigned == works("e")


# -- leaders that are wrong, and workers that do not come


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"id-a": b""},
        {"id-a": b"\0\2junk"},
        computed("a", ("a",), {}),
        computed("a", ("a", "b", "z"), {}),
        computed("b", ("a", "b"), {}),
        computed("a", ("a", "b"), {}, url="http://elsewhere/"),
        computed("a", ("a", "b"), {"a": (("d",), ())}),
        computed("a", ("a", "b"), {"a": (("e",), ()), "b": (("e",), ())}),
        computed("a", ("a",), {}) | computed("a", ("b",), {}, offset=9),
        {"id-a": b"\0\1", "id-b": b"\0\1"},
    ],
)
def test_what_is_no_assignment_of_the_group_gives_nobody_anything(wrong):
    talk = group(a=("c",), b=("d",))
    for refusals in (1, 2):
        talk.join("a", "c")
        assert talk.sync("a", wrong) is REJOIN
        assert talk.room.groups["connect-cluster"].rules.refusals == refusals
        assert beat(talk, "b") == [NONE]
    talk.join("a", "c")
    assert talk.sync("a", wrong) is UNKNOWN, "then another one leads"
    assert beat(talk, "b") == [REJOIN]
    assert talk.join("b", "d").leader == "id-b"


def test_a_leader_that_does_not_come_is_a_member_no_longer():
    talk = group(a=("c",), b=("d",))
    talk.join("z")
    for _ in range(REBALANCE_MS // HEARTBEAT_MS):
        assert beat(talk, "a", "b") == [REJOIN, NONE]
        talk.pass_ms(HEARTBEAT_MS)
    assert beat(talk, "b") == [REJOIN]
    assert "a" not in {
        member_id.removeprefix("id-") for member_id in talk.room.groups["connect-cluster"].members
    }


def test_a_worker_that_does_not_say_that_it_has_given_up_is_a_member_no_longer():
    talk = group(a=("c",), b=("d",))
    talk.join("a", "c")
    talk.lead("a", b=((), ("d",)))
    beat(talk, "b")
    talk.join("b", "d")
    talk.sync("b")
    for _ in range(REBALANCE_MS // HEARTBEAT_MS):
        assert beat(talk, "a", "b") == [NONE, NONE]
        talk.pass_ms(HEARTBEAT_MS)
    assert beat(talk, "a") == [REJOIN]
    talk.join("a", "c")
    assert talk.shown == {"a": works("c")}


def test_what_is_kept_has_a_bound():
    talk = Talk(most_bytes=5_000)
    many = tuple(f"c-{number}" for number in range(20))
    assert talk.join("a", *many) is None
    assert talk.join("b", *many).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert talk.room.groups["connect-cluster"].size <= 5_000
