"""The state diagrams of docs/explanation/translation.md, drawn from the transition tables in the code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.markers import replaced
from translation.group_migration import PACE, ROUTING
from translation.member_state import OBSERVED_TRANSITIONS, TRANSITIONS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "translation.md"

DIAGRAMS: Mapping[str, Mapping[Any, Mapping[Any, Any]]] = {
    "member states": TRANSITIONS,
    "observed member states": OBSERVED_TRANSITIONS,
    "group routing": ROUTING,
    "group pace": PACE,
}
"""By the name of the markers in the page: the table, exits by state."""


def page() -> str:
    """The page with its diagrams drawn anew."""
    text = PAGE.read_text(encoding="utf-8")
    for name, transitions in DIAGRAMS.items():
        text = replaced(text, name, drawn(transitions))
    return text


def drawn(transitions: Mapping[Any, Mapping[Any, Any]]) -> str:
    """A Mermaid state diagram: one arrow for each pair of states, with all events that lead from one to the other."""
    lines = ["```mermaid\n", "stateDiagram-v2\n"]
    for state, exits in transitions.items():
        for target in dict.fromkeys(exits.values()):
            events = "<br>".join(event.value for event, leads_to in exits.items() if leads_to is target)
            lines.append(f"    {state.value} --> {target.value}: {events}\n")
    return "".join((*lines, "```\n"))
