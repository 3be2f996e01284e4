"""Draws the state diagrams in docs/ from the transition tables in the code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxy.session.session_state import CLIENT, REQUEST, UPSTREAM
from tools.markers import replaced
from translation.member_log.ownership import OWNERSHIPS
from translation.members.group_migration import PACE, ROUTING
from translation.members.member_state import OBSERVED_TRANSITIONS, TRANSITIONS

DOCS = Path(__file__).resolve().parents[1] / "docs"

DIAGRAMS: Mapping[str, Mapping[str, Mapping[Any, Mapping[Any, Any]]]] = {
    "explanation/translation.md": {
        "member states": TRANSITIONS,
        "observed member states": OBSERVED_TRANSITIONS,
        "group routing": ROUTING,
        "group pace": PACE,
    },
    "explanation/fleet.md": {
        "member ownership": OWNERSHIPS,
    },
    "reference/protocol-contracts.md": {
        "client states": CLIENT,
        "upstream states": UPSTREAM,
        "request states": REQUEST,
    },
}
"""By page, and by the name of the markers in it: the table, exits by state."""


def page(name: str) -> str:
    """Return a page with its diagrams drawn anew."""
    text = (DOCS / name).read_text(encoding="utf-8")
    for marker, transitions in DIAGRAMS[name].items():
        text = replaced(text, marker, drawn(transitions))
    return text


def drawn(transitions: Mapping[Any, Mapping[Any, Any]]) -> str:
    """Return a Mermaid state diagram: one arrow for each pair of states, labelled with the events between them."""
    lines = ["```mermaid\n", "stateDiagram-v2\n"]
    for state, exits in transitions.items():
        for target in dict.fromkeys(exits.values()):
            events = "<br>".join(event.value for event, leads_to in exits.items() if leads_to is target)
            lines.append(f"    {state.value} --> {target.value}: {events}\n")
    return "".join((*lines, "```\n"))
