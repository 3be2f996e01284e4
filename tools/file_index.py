"""Writes docs/contributing/files.md: what each file decides, and which files have to do with a key, metric or error."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import msgspec

from proxy.config.schema import Config
from proxy.metrics.group_families import PREFIX
from proxy.metrics.registry import Metrics
from tools.module_map import ROOT, cleaned
from translation.policy.policy import Policy

_WAY = (
    "proxy/transport",
    "proxy/connection",
    "proxy/wire",
    "proxy/session",
    "translation",
    "protocol_codecs",
    "proxy/cli",
    "proxy/config",
    "proxy/reload",
    "proxy/server",
    "proxy/workers",
    "proxy/runtime",
    "proxy/member_log",
    "proxy/identity",
    "proxy/control",
    "proxy/groups",
    "proxy/metrics",
    "proxy/admin",
    "proxy/journal",
    "proxy/proof",
    "pipeline/rules",
    "proxy/shadow",
    "proxy/preflight",
    "proxy/exporter",
    "proxy",
    "coordinator",
)
"""Folders in the order of a call's way from the client on, then of what runs beside it. Each is with those below it."""
_IN_TRANSLATION = (
    "routing",
    "admission",
    "joining",
    "membership",
    "apis",
    "upstream",
    "members",
    "engine",
    "passthrough",
    "policy",
    "conversion",
    "moving",
    "rollout",
    "mending",
    "member_log",
)
_MOST = 5
"""A word that more files have leads nowhere."""
_SERVING = ("proxy", "translation")
_REGISTRY = "proxy/metrics/registry.py"
_PAGE = """\
# Files

Which file decides what: the first sentence of each, in the order of a call's way, then what runs beside it.
[Architecture](../explanation/architecture.md) explains the parts. `make docs` writes this page.

If the behaviour has a configuration key, a metric or an error code, begin with the tables at the end:
[keys](#configuration-keys), [metrics](#metrics), [error codes](#error-codes).

{files}
## Configuration keys

The files that decide by a key, if their sentence names it, else those that read it. For a key that is not here, see
its section among the files.

{keys}
## Metrics

The files whose sentence names a metric, else those that count. Metrics with the label `group` that are not here are
computed by `proxy/groups/group_metrics.py`.

{metrics}
## Error codes

Those that few files name. All others are mapped in `translation/error_mapping.py`.

{errors}"""


def page() -> str:
    """Return the page."""
    return _PAGE.format(
        files="".join(_rooms()),
        keys=_table("key", _keys()),
        metrics=_table("metric", _metrics()),
        errors=_table("error", _errors()),
    )


def _rooms() -> Iterator[str]:
    done = set[Path]()
    for folder in _folders():
        files = [file for file in sorted(folder.glob("*.py")) if file.name != "__init__.py"]
        if files and folder not in done:
            yield f"## `{folder.relative_to(ROOT)}/`\n\n{_first(folder / '__init__.py')}\n\n"
            yield "".join(f"- `{file.name}`: {_first(file)}\n" for file in files) + "\n"
        done.add(folder)


def _folders() -> Iterator[Path]:
    for name in _WAY:
        folder = ROOT / name
        yield folder
        order = {room: number for number, room in enumerate(_IN_TRANSLATION)}
        below = (file.parent for file in folder.rglob("__init__.py"))
        yield from sorted(below, key=lambda one: (order.get(one.name, 0), one))


def _first(file: Path) -> str:
    """The first paragraph of a module's docstring, as Markdown."""
    paragraph = (ast.get_docstring(_tree(file)) or "").partition("\n\n")[0]
    return cleaned(" ".join(paragraph.split()))


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def _sentences() -> dict[str, str]:
    files = (file for room in _SERVING for file in (ROOT / room).rglob("*.py"))
    return {file.relative_to(ROOT).as_posix(): _first(file) for file in files}


@cache
def _uses() -> dict[str, set[tuple[str, str]]]:
    """The files that have an attribute of this name, each with the name that the attribute is taken of."""
    found = defaultdict[str, set[tuple[str, str]]](set)
    for path in _sentences().keys() - {_REGISTRY}:
        for node in ast.walk(_tree(ROOT / path)):
            if isinstance(node, ast.Attribute) and not path.startswith("proxy/demo/"):
                owner = getattr(node.value, "attr", "") or getattr(node.value, "id", "")
                found[node.attr].add((path, owner.strip("_")))
    return found


def _keys() -> Iterator[tuple[str, set[str]]]:
    """The files of each key: those whose sentence names it, else those that read it."""
    keys = [
        (re.sub(r".*\.tls\.", "tls.", key), kind)
        for kind in (Config, Policy)
        for key in _leaves("", msgspec.inspect.type_info(kind))
    ]
    sections = Counter(key.rpartition(".")[2] for key, _ in dict.fromkeys(keys))
    for key, kind in dict.fromkeys(keys):
        *_, section, name = f"config.{key}".replace("[]", "").split(".")
        is_clear = sections[name] == 1 and ("_" in name or section == "config")
        yield (
            key,
            _naming(section, name, is_clear=is_clear, is_rule=kind is Policy) or _reading(section, name),
        )


def _naming(section: str, name: str, *, is_clear: bool, is_rule: bool) -> set[str]:
    found = set[str]()
    for file, text in _sentences().items():
        is_about = is_clear or f"`{section}." in text or (is_rule and file.startswith("translation/"))
        if f"`{section}.{name}`" in text or (is_about and f"`{name}`" in text):
            found.add(file)
    return found


def _reading(section: str, name: str) -> set[str]:
    uses = {one for one in _uses()[name] if not one[0].startswith("proxy/config/")} or _uses()[name]
    files = {file for file, _ in uses}
    if "_" in name and len(files) <= _MOST:
        return files
    return {file for file, owner in uses if owner == section or _has(file, section)}  # a common name


def _has(file: str, section: str) -> bool:
    return section.removesuffix("s") in (ROOT / file).read_text(encoding="utf-8")


def _leaves(prefix: str, info: msgspec.inspect.Type) -> Iterator[str]:
    """The keys that have a value, below this prefix, in their order."""
    match info:
        case msgspec.inspect.Metadata():
            yield from _leaves(prefix, info.type)
        case msgspec.inspect.StructType():
            for field in info.fields:
                yield from _leaves(f"{prefix}.{field.encode_name}".lstrip("."), field.type)
        case msgspec.inspect.VarTupleType():
            of_items = list(_leaves(f"{prefix}[]", info.item_type))
            yield from of_items if len(of_items) > 1 else [prefix]
        case msgspec.inspect.UnionType():
            yield from dict.fromkeys(key for one in info.types for key in _leaves(prefix, one))
        case _:
            yield prefix


def _metrics() -> Iterator[tuple[str, set[str]]]:
    names = {one.name for one in Metrics().table}
    for node in ast.walk(_tree(ROOT / _REGISTRY)):
        match node:
            case ast.Assign(
                targets=[ast.Attribute(attr=attribute)],
                value=ast.Call(args=[ast.Constant(value=str(name)), *_]),
            ) if re.fullmatch(r"\w+", name):
                full = f"{PREFIX}{name}" if f"{PREFIX}{name}" in names else f"{PREFIX}{name}_total"
                naming = {file for file, text in _sentences().items() if f"`{full}`" in text}
                yield full, naming or {file for file, _ in _uses()[attribute]}


def _errors() -> Iterator[tuple[str, set[str]]]:
    for name, uses in sorted(_uses().items()):
        files = {file for file, owner in uses if owner == "ErrorCode"} - {"translation/error_mapping.py"}
        if files:
            yield name, files


def _table(what: str, rows: Iterable[tuple[str, set[str]]]) -> str:
    lines = [
        f"| `{word}` | {', '.join(f'`{file}`' for file in sorted(files))} |\n"
        for word, files in rows
        if 0 < len(files) <= _MOST
    ]
    return "".join([f"| {what} | files |\n| --- | --- |\n", *lines])
