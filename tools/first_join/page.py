"""Writes the generated part of docs/explanation/first-join.md."""

from tools import module_map
from tools.first_join.trace import BYTES, MESSAGES, ROOT, Form, Tracer
from tools.markers import replaced

PAGE = ROOT / "docs" / "explanation" / "first-join.md"
_CELL = "| {} | `{}` | {} | {} | {} |\n"


def summary(way: Tracer) -> str:
    """Return the figures in one sentence."""
    lines = sum(len(stop.lines) for stop in way.stops.values())
    return f"{len(way.stops)} files, of which {lines} lines run; {len(way.forms) - 1} changes of form."


def written(way: Tracer) -> str:
    """Return the page with its picture and its table drawn anew."""
    head = (
        "| | file | what the file is for | functions on the way | lines |\n| --- | --- | --- | --- | --- |\n"
    )
    rows = "".join(
        _CELL.format(
            number,
            path,
            module_map.summary((ROOT / path).with_suffix("")),
            ", ".join(f"`{name}`" for name in stop.functions),
            len(stop.lines),
        )
        for number, (path, stop) in enumerate(way.stops.items(), start=1)
    )
    text = replaced(PAGE.read_text(encoding="utf-8"), "forms", f"{_picture(way.forms)}\n{summary(way)}\n")
    return replaced(text, "files", head + rows)


def _picture(forms: list[Form]) -> str:
    """Draw the forms as a chain, each with the file that first hands it on: bytes round, messages with double sides."""
    lines = ["```mermaid\n", "flowchart TB\n"]
    for number, (name, handed_on_in) in enumerate(forms):
        text = f'"{name}<br>{handed_on_in}"'
        shape = f"([{text}])" if name == BYTES else f"[[{text}]]" if name in MESSAGES else f"[{text}]"
        lines.append(f"    f{number}{shape}\n")
    lines.append(f"    {' --> '.join(f'f{number}' for number in range(len(forms)))}\n")
    return "".join((*lines, "```\n"))
