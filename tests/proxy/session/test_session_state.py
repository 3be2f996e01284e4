"""The tables of a session's states: complete, without dead ends, and the only way from one state to another."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest

from proxy.session.session_state import (
    CLIENT,
    REQUEST,
    UPSTREAM,
    ClientEvent,
    ClientState,
    IllegalSessionTransitionError,
    RequestEvent,
    RequestState,
    SessionState,
    UpstreamEvent,
    UpstreamState,
)

Table = Mapping[Any, Mapping[Any, Any]]
MACHINES = [
    pytest.param(CLIENT, ClientState, ClientEvent, id="client"),
    pytest.param(UPSTREAM, UpstreamState, UpstreamEvent, id="upstream"),
    pytest.param(REQUEST, RequestState, RequestEvent, id="request"),
]


def reached(table: Table, start: StrEnum) -> set[Any]:
    found, new = {start}, {start}
    while new:
        new = {target for state in new for target in table[state].values()} - found
        found |= new
    return found


@pytest.mark.parametrize(("table", "states", "events"), MACHINES)
def test_every_state_can_be_reached_and_every_event_leads_somewhere(
    table: Table, states: type[StrEnum], events: type[StrEnum]
) -> None:
    assert set(table) == set(states)
    assert reached(table, next(iter(states))) == set(states)
    assert {event for exits in table.values() for event in exits} == set(events)


@pytest.mark.parametrize("state", RequestState)
def test_the_session_becomes_ready_again_from_every_request_state(state: RequestState) -> None:
    assert RequestState.READY in reached(REQUEST, state)


def test_a_client_that_is_gone_stays_gone() -> None:
    assert reached(CLIENT, ClientState.GONE) == {ClientState.GONE}


def test_what_is_not_in_a_table_is_refused_and_changes_nothing() -> None:
    for state in RequestState:
        for event in set(RequestEvent) - set(REQUEST[state]):
            session = SessionState()
            session.request = state
            with pytest.raises(IllegalSessionTransitionError, match=f"RequestState {state.value}"):
                session.on_request(event)
            assert session.request is state


def test_each_side_goes_its_own_way() -> None:
    session = SessionState()
    session.on_client(ClientEvent.VALID_REQUEST)
    session.on_upstream(UpstreamEvent.NEEDED)
    session.on_request(RequestEvent.UPSTREAM_MISSING)
    session.on_client(ClientEvent.STOP_ACCEPTING)
    session.on_upstream(UpstreamEvent.OPENED)
    session.on_request(RequestEvent.RESUMED)
    assert (session.client, session.upstream, session.request) == (
        ClientState.DRAINING,
        UpstreamState.OPEN,
        RequestState.READY,
    )
    with pytest.raises(IllegalSessionTransitionError):
        session.on_client(ClientEvent.VALID_REQUEST)
    with pytest.raises(IllegalSessionTransitionError):
        session.on_upstream(UpstreamEvent.OPENED)
