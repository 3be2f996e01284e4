"""The table of member states."""

import pytest

from translation.members.member_state import (
    OBSERVED_TRANSITIONS,
    TRANSITIONS,
    IllegalTransition,
    MemberEvent,
    MemberState,
    MemberStateMachine,
    Transitions,
)


def test_the_life_of_a_member() -> None:
    machine = MemberStateMachine()
    assert machine.state is MemberState.ABSENT
    history = [
        (MemberEvent.JOIN_ANSWERED, MemberState.COMPLETING_REBALANCE),
        (MemberEvent.SYNC_ANSWERED, MemberState.STABLE),
        (MemberEvent.ASSIGNMENT_CHANGED, MemberState.PREPARE_REBALANCE),
        (MemberEvent.JOIN_ANSWERED, MemberState.COMPLETING_REBALANCE),
        (MemberEvent.SYNC_ANSWERED_WITHHOLDING, MemberState.PREPARE_REBALANCE),
        (MemberEvent.JOIN_ANSWERED, MemberState.COMPLETING_REBALANCE),
        (MemberEvent.SYNC_ANSWERED, MemberState.STABLE),
        (MemberEvent.LEFT, MemberState.ABSENT),
    ]
    for event, state in history:
        assert machine.handle(event) is state


@pytest.mark.parametrize("state", MemberState)
def test_join_group_is_legal_in_every_state(state: MemberState) -> None:
    assert TRANSITIONS[state][MemberEvent.JOIN_ANSWERED] is MemberState.COMPLETING_REBALANCE


def test_what_is_not_in_the_table_is_refused_and_changes_nothing() -> None:
    machine = MemberStateMachine()
    with pytest.raises(
        IllegalTransition, match="'SyncGroup answered' can't happen to a member in state Absent"
    ):
        machine.handle(MemberEvent.SYNC_ANSWERED)
    assert machine.state is MemberState.ABSENT


@pytest.mark.parametrize("transitions", [TRANSITIONS, OBSERVED_TRANSITIONS], ids=["translated", "observed"])
def test_each_state_has_a_block_and_can_be_reached_and_left(transitions: Transitions) -> None:
    reached = {target for exits in transitions.values() for target in exits.values()}
    assert set(transitions) == reached == set(MemberState)
    for state, exits in transitions.items():
        assert set(exits.values()) - {state}


def test_each_event_is_in_a_table() -> None:
    assert {
        event
        for transitions in (TRANSITIONS, OBSERVED_TRANSITIONS)
        for exits in transitions.values()
        for event in exits
    } == set(MemberEvent)


def test_an_observed_member_may_be_seen_first_in_the_middle_of_its_life() -> None:
    machine = MemberStateMachine(OBSERVED_TRANSITIONS)
    assert machine.handle(MemberEvent.FIRST_SEEN) is MemberState.STABLE
    assert machine.handle(MemberEvent.REBALANCE_ANNOUNCED) is MemberState.PREPARE_REBALANCE
    assert machine.handle(MemberEvent.JOIN_ANSWERED) is MemberState.COMPLETING_REBALANCE
