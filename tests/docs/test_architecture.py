"""The page on the architecture names files that exist, and its tables come from docstrings and import contracts."""

import ast
import re

import pytest

from tools import module_map
from tools.module_map import ROOT

TEXT = module_map.PAGE.read_text(encoding="utf-8")


def rows(name):
    table = TEXT.split(f"<!-- {name} -->\n")[1].split(f"<!-- /{name} -->")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


def test_each_path_of_the_page_exists():
    paths = set(
        re.findall(
            r"`((?:proxy|translation|coordinator|hosting|pipeline|audit|protocol_codecs|tests)/[\w/.]*)`",
            TEXT,
        )
    )
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


DECIDED_IN = re.findall(
    r"`([\w/]+\.py)::([\w.]+)`", TEXT.split("\n## Where is it decided\n")[1].split("\n## ")[0]
)
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def names_of(path):
    """The functions, constants and classes of a module, and the methods of its classes as ``Class.method``."""
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, FUNCTION):
            yield node.name
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        if isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}.{one.name}" for one in node.body if isinstance(one, FUNCTION))


@pytest.mark.parametrize(("path", "name"), DECIDED_IN)
def test_what_decides_exists(path, name):
    assert name in set(names_of(path))


def test_each_row_says_where_it_is_decided():
    section = TEXT.split("\n## Where is it decided\n")[1].split("\n## ")[0]
    heads = ("| behaviour |", "| --- |")
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith(heads)]
    assert len(rows) >= 40
    assert [row for row in rows if ".py::" not in row] == []


def test_no_package_of_a_layered_one_is_left_out():
    for package in module_map.LAYERED:
        there = {
            f"`{path.relative_to(ROOT).as_posix()}/`"
            for path in (ROOT / package).glob("*/")
            if (path / "__init__.py").exists()
        }
        assert there <= {row[1] for row in rows(package)}


def test_every_package_says_what_lives_there():
    for name in ("packages", *module_map.LAYERED):
        assert [row for row in rows(name) if not all(row)] == []


def test_the_codecs_may_import_none_of_the_others():
    assert next(row for row in rows("packages") if row[0] == "`protocol_codecs/`")[2] == "none of them"


def test_a_summary_is_the_first_paragraph_of_a_package_and_the_first_line_of_a_module(tmp_path):
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "__init__.py").write_text('"""One\nroom.\n\nMore."""\n')
    (tmp_path / "one.py").write_text('"""A ``module`` of :class:`Some`.\nMore."""\n')
    assert module_map.summary(tmp_path / "room") == "One room."
    assert module_map.summary(tmp_path / "one") == "A `module` of `Some`."
