"""Writes the tables of docs/explanation/architecture.md: the contents of each package, and what it may import.

The contents are the first paragraph of the package's docstring (of a single module its first line); what it may import
follows from the import contracts in pyproject.toml, which ``lint-imports`` enforces.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tools.markers import replaced

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
LAYERED = ("proxy", "translation")
"""Packages whose sub-packages are layers of an import contract of their own."""


def page() -> str:
    """Return the page with its tables written anew."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    text = replaced(PAGE.read_text(encoding="utf-8"), "packages", _table(_packages(linter)))
    for package in LAYERED:
        text = replaced(text, package, _table(_layers(linter, package)))
    return text


def summary(path: Path) -> str:
    """Return the first paragraph of a package's docstring, or a module's first line, as one line of Markdown.

    ``|`` would end a table cell, so it becomes ``/``.
    """
    is_package = path.is_dir()
    file = path / "__init__.py" if is_package else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    paragraph = docstring.partition("\n\n")[0]
    text = " ".join(paragraph.split()) if is_package else paragraph.partition("\n")[0]
    return cleaned(text)


def cleaned(docstring: str) -> str:
    """Return text of a docstring as Markdown for a table's cell."""
    return re.sub(r":\w+:(?=`)", "", docstring).replace("``", "`").replace("|", "/")


def _packages(linter: dict[str, Any]) -> list[list[str]]:
    names: list[str] = linter["root_packages"]
    forbidden: dict[str, set[str]] = {name: {name} for name in names}
    for contract in linter["contracts"]:
        if contract["type"] == "forbidden":
            for source in forbidden.keys() & set(contract["source_modules"]):  # a contract may be of a room
                forbidden[source].update(contract["forbidden_modules"])
    rows = [
        [f"`{name}/`", summary(ROOT / name), _codes(other for other in names if other not in forbidden[name])]
        for name in names
    ]
    return [["package", "what lives there", "may import"], *rows]


def _layers(linter: dict[str, Any], package: str) -> list[list[str]]:
    layers = next(
        [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]
        for contract in linter["contracts"]
        if contract["type"] == "layers" and contract["containers"] == [package]
    )
    rows = [
        [str(len(layers) - number), f"`{_path(package, name)}`", summary(ROOT / package / name)]
        for number, layer in enumerate(layers)
        for name in layer
    ]
    return [["layer", "package or module", "what lives there"], *rows]


def _path(package: str, name: str) -> str:
    return f"{package}/{name}/" if (ROOT / package / name).is_dir() else f"{package}/{name}.py"


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none of them"


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, ["---"] * len(head), *body))
