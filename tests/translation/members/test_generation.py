"""A generation is the member epoch at the last JoinGroup; which generations a call may have follows from that."""

from types import SimpleNamespace
from typing import Any

import pytest

from protocol_codecs import ApiKey, ErrorCode
from protocol_codecs.messages.heartbeat import HeartbeatRequest
from protocol_codecs.messages.offset_commit import OffsetCommitRequest
from translation.actions import Connection, ConnectionId, Request, RequestId
from translation.members import generation
from translation.members.member_state import MemberState

CONNECTION = Connection(ConnectionId(1), "host", {})


def a_member(state: MemberState = MemberState.STABLE, **values: Any) -> Any:
    """A member that joined at epoch 5, of which the broker is at epoch 7 now."""
    known = {"generation": 5, "previous_generation": 3, "member_epoch": 7, "adopted": False}
    return SimpleNamespace(**{**known, "may_have_moved": False, "joined": True, "state": state, **values})


def test_a_join_group_is_answered_with_the_member_epoch_of_that_moment() -> None:
    member = a_member()
    generation.give(member)
    assert (member.generation, member.previous_generation) == (7, 5)


def test_a_second_join_group_without_a_sync_group_keeps_the_oldest_generation_that_the_client_may_have() -> (
    None
):
    member = a_member(MemberState.COMPLETING_REBALANCE)
    generation.give(member)
    assert (member.generation, member.previous_generation) == (7, 3)


@pytest.mark.parametrize(
    ("state", "carried", "counts"),
    [
        (MemberState.STABLE, 5, True),
        (MemberState.STABLE, 3, False),
        (MemberState.STABLE, 7, False),
        (MemberState.COMPLETING_REBALANCE, 3, True),
        (MemberState.COMPLETING_REBALANCE, 4, True),
        (MemberState.COMPLETING_REBALANCE, 2, False),
        (MemberState.COMPLETING_REBALANCE, 6, False),
    ],
)
def test_a_commit_may_have_an_older_generation_until_sync_group(
    state: MemberState, carried: int, *, counts: bool
) -> None:
    assert generation.may_commit(a_member(state), carried) is counts


HEARTBEAT = ApiKey.HEARTBEAT, HeartbeatRequest(generation_id=3)
COMMIT = ApiKey.OFFSET_COMMIT, OffsetCommitRequest(generation_id_or_member_epoch=3)


@pytest.mark.parametrize(
    ("call", "generation_here", "code"),
    [
        (HEARTBEAT, 3, ErrorCode.NONE),
        (HEARTBEAT, 5, ErrorCode.ILLEGAL_GENERATION),
        (HEARTBEAT, generation.NONE, ErrorCode.UNKNOWN_MEMBER_ID),
        (COMMIT, 5, ErrorCode.NONE),
        (COMMIT, generation.NONE, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_which_error_refuses_a_call_until_sync_group(
    call: tuple[ApiKey, Any], generation_here: int, code: ErrorCode
) -> None:
    member = a_member(MemberState.COMPLETING_REBALANCE, generation=generation_here)
    request = Request(RequestId(1), CONNECTION, call[0], 9, None, call[1])
    assert generation.why_refused(member, request) == code


@pytest.mark.parametrize(("carried", "taken"), [(4, 5), (6, 6), (7, 7), (8, 5)])
def test_an_adopted_member_takes_a_newer_generation_up_to_the_brokers_epoch(carried: int, taken: int) -> None:
    member = a_member(adopted=True)
    generation.learn(member, carried)
    assert member.generation == taken


def test_a_member_that_joined_here_has_the_generation_that_it_was_given() -> None:
    member = a_member()
    generation.learn(member, 7)
    assert member.generation == 5


@pytest.mark.parametrize(("carried", "taken"), [(6, 6), (12, 9)])
def test_a_member_is_adopted_with_the_generation_of_its_clients_call(carried: int, taken: int) -> None:
    member = a_member()
    message = HeartbeatRequest(group_id="g", generation_id=carried, member_id="m")
    generation.adopt(
        member, Request(RequestId(1), CONNECTION, ApiKey.HEARTBEAT, 4, None, message), broker_epoch=9
    )
    assert (member.generation, member.member_epoch) == (taken, 9)


@pytest.mark.parametrize(
    ("carried", "away", "sole_process", "elsewhere"),
    [
        (5, False, False, False),
        (5, True, False, True),
        (6, False, False, True),
        (4, True, False, False),
        (6, True, True, False),
    ],
)
def test_another_process_may_have_served_a_client_with_a_newer_generation_or_that_was_away(
    carried: int, *, away: bool, sole_process: bool, elsewhere: bool
) -> None:
    member = a_member(may_have_moved=away)
    assert generation.served_elsewhere(member, carried, sole_process=sole_process) is elsewhere
