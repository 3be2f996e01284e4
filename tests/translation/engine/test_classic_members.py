"""What is remembered of classic members, and for how long."""

from typing import Any

import pytest

from protocol_codecs import ApiKey
from protocol_codecs.messages.offset_commit import OffsetCommitRequest
from tests.translation.bench import KAFKA_4_3
from translation.actions import Connection, ConnectionId, Request, RequestId
from translation.engine.classic_members import MOST_BYTES, ClassicMember, ClassicMembers
from translation.members.member_ids import LONGEST_MEMBER_ID

GROUP = "payments"
MEMBER = "app-1"
ASSIGNMENT = b"\0\0\0\0\0\1"


def member(member_id: str = MEMBER, *, generation: int = 4, size: int = 100, **other: Any) -> ClassicMember:
    """A member whose JoinGroup the broker has answered; ``size`` bytes is its subscription."""
    fields = {
        "member_id": member_id,
        "instance_id": None,
        "client_id": "app",
        "client_host": "/10.0.0.1",
        "joined_on": ConnectionId(1),
        "protocol_type": "consumer",
        "protocol_name": "range",
        "offered": ("range",),
        "metadata": bytes(size),
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "generation": generation,
    }
    return ClassicMember(**(fields | other))


def of_one(**joined: Any) -> ClassicMembers:
    """Has joined and synced."""
    members = ClassicMembers(limit=100, bytes_limit=1 << 20)
    members.joined(GROUP, member(**joined))
    members.synced(GROUP, MEMBER, 4, ASSIGNMENT)
    return members


def found(members: ClassicMembers) -> ClassicMember:
    """The record of the one member."""
    one = members.find(GROUP, MEMBER)
    assert one is not None
    return one


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_of_more_members_than_the_limit_the_one_that_joined_longest_ago_is_forgotten() -> None:
    members = ClassicMembers(limit=2, bytes_limit=1 << 20)
    for name in ("a", "b"):
        members.joined(GROUP, member(name))
    members.joined(GROUP, member("a"))  # rejoins
    members.joined(GROUP, member("c"))
    assert [name for name in "abc" if members.find(GROUP, name)] == ["a", "c"]
    assert len(members) == 2


def test_of_larger_subscriptions_than_the_byte_limit_the_oldest_is_forgotten() -> None:
    members = ClassicMembers(limit=100, bytes_limit=2 * member(size=5_000).size)
    for name in ("a", "b", "c"):
        members.joined(GROUP, member(name, size=5_000))
    assert [name for name in "abc" if members.find(GROUP, name)] == ["b", "c"]


def test_the_bytes_of_what_is_forgotten_or_rejoins_count_no_more() -> None:
    """Else the room would be used up by members that come and go, and none would be remembered any more."""
    members = ClassicMembers(limit=100, bytes_limit=2 * (member(size=5_000).size + len(ASSIGNMENT)))
    for _ in range(50):
        members.joined(GROUP, member("a", size=5_000))
        members.synced(GROUP, "a", 4, ASSIGNMENT)
        members.rejoins(GROUP, "a")
        members.joined(GROUP, member("a", size=5_000))
        members.synced(GROUP, "a", 4, ASSIGNMENT)
        members.joined(GROUP, member("gone", size=5_000))
        members.synced(GROUP, "gone", 4, ASSIGNMENT)
        assert len(members) == 2
        members.forget(GROUP, "gone")
    assert len(members) == 1


def test_assignments_count_as_bytes_too() -> None:
    """Members may all join before the first of them is assigned anything."""
    members = ClassicMembers(limit=100, bytes_limit=40_000)
    for name in ("a", "b"):
        members.joined(GROUP, member(name))
    members.synced(GROUP, "b", 4, bytes(38_900))
    assert [name for name in "ab" if members.find(GROUP, name)] == ["b"]


@pytest.mark.parametrize(
    "too_large", [{"size": MOST_BYTES + 1}, {"member_id": "x" * (LONGEST_MEMBER_ID + 1)}]
)
def test_a_member_with_a_subscription_or_an_id_that_is_too_large_is_not_kept(
    too_large: dict[str, Any],
) -> None:
    members = ClassicMembers(limit=100, bytes_limit=1 << 30)
    one = member(**too_large)
    members.joined(GROUP, one)
    assert members.find(GROUP, one.member_id) is None
    members.joined(GROUP, member())
    assert len(members) == 1


def test_an_earlier_subscription_does_not_stand_for_one_that_is_too_large() -> None:
    members = of_one()
    members.joined(GROUP, member(size=MOST_BYTES + 1))
    assert members.find(GROUP, MEMBER) is None


def test_an_assignment_that_is_too_large_is_not_kept() -> None:
    members = of_one()
    members.joined(GROUP, member(generation=5))
    members.synced(GROUP, MEMBER, 5, bytes(MOST_BYTES + 1))
    assert found(members).assignment is None
    members.synced(GROUP, MEMBER, 5, bytes(MOST_BYTES))
    assert found(members).assignment is not None


# -- generations -------------------------------------------------------------------------------------------------------


def test_what_a_member_owns_is_unknown_while_it_rejoins() -> None:
    members = of_one()
    assert found(members).assignment == ASSIGNMENT
    members.rejoins(GROUP, MEMBER)
    assert found(members).assignment is None


def test_the_answer_to_a_sync_group_from_before_a_rejoin_does_not_count() -> None:
    members = of_one()
    members.rejoins(GROUP, MEMBER)
    members.synced(GROUP, MEMBER, 4, ASSIGNMENT)
    assert found(members).assignment is None
    members.joined(GROUP, member(generation=5))
    members.synced(GROUP, MEMBER, 4, ASSIGNMENT)
    assert found(members).assignment is None
    members.synced(GROUP, MEMBER, 5, b"its own")
    assert found(members).assignment == b"its own"


def test_a_sync_group_of_a_member_that_is_not_known_is_not_kept() -> None:
    members = ClassicMembers(limit=100, bytes_limit=1 << 20)
    members.synced(GROUP, MEMBER, 4, ASSIGNMENT)
    members.rejoins(GROUP, MEMBER)
    members.rebalance_announced(GROUP, MEMBER, 1000.0)
    assert len(members) == 0


def test_the_same_id_in_another_group_is_another_member() -> None:
    members = of_one()
    members.rejoins("other", MEMBER)
    members.forget("other", MEMBER)
    assert found(members).assignment == ASSIGNMENT


# -- timers of the broker ----------------------------------------------------------------------------------------------


def test_a_timer_of_the_broker_may_run_for_the_rebalance_timeout() -> None:
    members = of_one(rebalance_timeout_ms=60_000)
    members.rebalance_announced(GROUP, MEMBER, 1000.0)
    assert found(members).timers_until == 1060.0


def test_a_rejoin_does_not_end_a_timer_of_the_broker() -> None:
    """A JoinGroup to a group that has become a classic one meanwhile does not stop it."""
    members = of_one()
    members.rebalance_announced(GROUP, MEMBER, 1000.0)
    members.rejoins(GROUP, MEMBER)
    members.joined(GROUP, member(generation=5))
    assert found(members).timers_until == 1060.0


# -- commits -----------------------------------------------------------------------------------------------------------


def commits(members: ClassicMembers, connection_id: int, **stranger: Any) -> None:
    """A commit in the member's name comes on this connection."""
    connection = Connection(ConnectionId(connection_id), stranger.get("host", "/10.0.0.1"), KAFKA_4_3)
    message = OffsetCommitRequest(group_id=GROUP, member_id=MEMBER, generation_id_or_member_epoch=4)
    client_id = stranger.get("client_id", "app")
    request = Request(RequestId(1), connection, ApiKey.OFFSET_COMMIT, 8, client_id, message)
    members.commits(GROUP, request)


def test_the_connections_on_which_a_member_commits_are_known_newest_last() -> None:
    members = of_one()
    for connection_id in (2, 3, 2):
        commits(members, connection_id)
    assert found(members).commits_on == (3, 2)


@pytest.mark.parametrize("stranger", [{"client_id": "stranger"}, {"host": "/10.0.0.66"}])
def test_a_commit_of_a_stranger_in_the_name_of_a_member_does_not_count(stranger: dict[str, str]) -> None:
    """It could name connections on which nothing is answered, so that the member is never converted."""
    members = of_one()
    commits(members, 2)
    commits(members, 3, **stranger)
    assert found(members).commits_on == (2,)


def test_of_many_connections_the_last_four_are_known() -> None:
    members = of_one()
    for connection_id in range(1, 8):
        commits(members, connection_id)
    assert found(members).commits_on == (4, 5, 6, 7)
