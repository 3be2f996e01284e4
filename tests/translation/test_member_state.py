"""The table of member states."""

import pytest

from translation.member_state import (
    TRANSITIONS,
    IllegalTransition,
    MemberEvent,
    MemberState,
    MemberStateMachine,
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
    assert TRANSITIONS[state, MemberEvent.JOIN_ANSWERED] is MemberState.COMPLETING_REBALANCE


def test_what_is_not_in_the_table_is_refused_and_changes_nothing() -> None:
    machine = MemberStateMachine()
    with pytest.raises(
        IllegalTransition, match="'SyncGroup answered' can't happen to a member in state Absent"
    ):
        machine.handle(MemberEvent.SYNC_ANSWERED)
    assert machine.state is MemberState.ABSENT
