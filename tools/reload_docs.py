"""Writes the tables of keys in docs/how-to/reload.md."""

from pathlib import Path

from proxy.reload.config_plan import Kind, effects
from tools.markers import replaced

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "reload.md"


def page() -> str:
    """Return the page with its tables written anew."""
    reloaded, restart = dict[str, list[str]](), dict[str, list[str]]()
    for key, (kind, text) in effects().items():
        if kind is Kind.RESTART:
            restart.setdefault(text.partition(": ")[2], []).append(f"`{key}`")
        else:
            reloaded.setdefault(text, []).append(f"`{key}`")
    page = replaced(PAGE.read_text(encoding="utf-8"), "reloaded", _table("what happens", reloaded))
    return replaced(page, "restart", _table("why", restart))


def _table(title: str, keys: dict[str, list[str]]) -> str:
    """Return a table with a row for each text."""
    rows = "".join(f"| {', '.join(names)} | {text} |\n" for text, names in keys.items())
    return f"| keys | {title} |\n| --- | --- |\n{rows}"
