"""Which keys and values a configuration or a policy file may have, and the words of the error (a misspelt key, a
wrong type): all that is wrong with it, with line numbers.

msgspec stops at the first error. So a document that it refuses is converted key by key, from the inside out.
"""

import difflib
import re
import types
from collections.abc import Iterable
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo, fields

from proxy.config.document import Document, KeyPath, dotted, may_be_secret

_UNITS = {"_ms": "milliseconds", "_s": "seconds", "_bytes": "bytes"}
"""The unit of a number by the end of its key's name."""

_WITH_UNIT = re.compile(r"(?P<number>\d+(?:\.\d+)?) ?(?P<unit>[A-Za-z]{1,3})")
_SIZES: dict[str, dict[str, float]] = {
    "seconds": {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400},
    "milliseconds": {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000},
    "bytes": {"B": 1, "k": 2**10, "K": 2**10, "KB": 2**10, "KiB": 2**10, "M": 2**20, "MB": 2**20, "MiB": 2**20,
              "G": 2**30, "GB": 2**30, "GiB": 2**30},
}  # fmt: skip
_LONGEST_SHOWN = 60
"""Characters of a value in a message."""

_MSGSPEC_PATH = re.compile(r" - at (?:`key` in )?`\$[^`]*`$")
_WORDS = {bool: "`true` or `false`", int: "a whole number", float: "a number", str: "a text"}


def problems(document: Document, kind: Any, value: Any, path: KeyPath = ()) -> list[str]:
    """Return all problems of the value at a key, which should be of this type; none if it is."""
    if path in document.unreadable:
        return [document.unreadable[path]]
    hint = bare(kind)
    found: list[str] = []
    if isinstance(value, dict) and is_section(hint):
        found = _problems_of_keys(document, hint, value, path)
    elif isinstance(value, dict) and get_origin(hint) is dict:
        for key, item in value.items():
            found += problems(document, get_args(hint)[1], item, (*path, key))
    elif isinstance(value, list) and get_origin(hint) is tuple:
        for number, item in enumerate(value):
            found += problems(document, get_args(hint)[0], item, (*path, number))
    if found:
        return found
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text = _MSGSPEC_PATH.sub("", str(error))
        if not isinstance(value, dict):  # else a mapping of good values, which do not fit each other
            text = _mismatch(kind, value, path) or text[:1].lower() + text[1:]
        return [document.problem(path, text)]
    return []


_NEVER_OFFERED = frozenset({"host", "experimental"})
"""Keys and values of experiments: a misspelt word leads to none of them."""


def field_of(struct: Any, name: str | int) -> FieldInfo | None:
    """Return the declaration of a section's key; None if there is no such key."""
    return next((field for field in fields(struct) if field.encode_name == name), None)


def hint_at(kind: Any, path: KeyPath) -> Any:
    """Return the type of a key; None if there is no such key."""
    hint: Any = bare(kind)
    for step in path:
        if is_section(hint):
            field = field_of(hint, step)
            hint = None if field is None else bare(field.type)
        elif get_origin(hint) is tuple and isinstance(step, int):
            hint = bare(get_args(hint)[0])
        else:
            return None
    return hint


def bare(kind: Any) -> Any:
    """Return the type without its constraints, and without `null` as an alternative."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in {Union, types.UnionType}:
        others = [one for one in get_args(kind) if one is not type(None)]
        if len(others) == 1:
            return bare(others[0])
    return kind


def one_of(values: Iterable[object]) -> str:
    """Return the accepted values, in words."""
    return f"one of {', '.join(f'`{value}`' for value in values)}"


def is_section(hint: Any) -> bool:
    """Whether a value of this type is a mapping with declared keys."""
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _problems_of_keys(document: Document, struct: Any, value: dict[str, Any], path: KeyPath) -> list[str]:
    known = {field.encode_name: field for field in fields(struct)}
    found: list[str] = []
    for key, item in value.items():
        if key in known or (*path, key) in document.unreadable:
            kind = known[key].type if key in known else Any
            found += problems(document, kind, item, (*path, key))
        else:
            offered = [name for name in known if name not in _NEVER_OFFERED]
            close = difflib.get_close_matches(key, offered, n=1)
            hint = f"did you mean `{close[0]}`? " if close else ""
            found.append(
                f"{document.where((*path, key))} {dotted((*path, key))}: unknown key; {hint}expected {one_of(offered)}"
            )
    for key, field in known.items():
        if field.required and key not in value:
            found.append(
                f"{document.where(path)} {dotted((*path, key))}: missing; expected {_expected(field.type, key)}"
            )
    return found


def _mismatch(kind: Any, value: Any, path: KeyPath) -> str | None:
    """What was expected and what is there; None for a type that has no words here."""
    name = next((step for step in reversed(path) if isinstance(step, str)), "")
    expected = _expected(kind, name)
    if expected is None:
        return None
    if may_be_secret(path):
        return f"expected {expected}"
    return f"expected {expected}, got {_shown(value, bare(kind))}{_converted(value, _unit(kind, name))}"


def _expected(kind: Any, name: str) -> str | None:
    """What a key takes, in words; None for a type that has no words here."""
    hint, limits = bare(kind), _limits(kind)
    if isinstance(hint, type) and issubclass(hint, Enum):
        words = one_of(one.value for one in hint if one.value not in _NEVER_OFFERED)
    elif get_origin(hint) is Literal:
        words = one_of(get_args(hint))
    elif get_origin(hint) is tuple:
        words = "a list"
    elif get_origin(hint) is dict or is_section(hint):
        words = "a mapping"
    elif get_origin(hint) in {Union, types.UnionType}:
        parts = [_expected(one, name) for one in get_args(hint)]
        if None in parts:
            return None
        words = " or ".join(part for part in parts if part is not None)
    elif hint in _WORDS:
        words = _WORDS[hint]
        unit = _unit(kind, name)
        words += f" of {unit}" if unit else ""
    else:
        return None
    return words + limits


def _limits(kind: Any) -> str:
    """The bounds that a type's annotations give."""
    said: list[str] = []
    while get_origin(kind) in {Annotated, Union, types.UnionType}:
        inner, *metas = get_args(kind) if get_origin(kind) is Annotated else (_only(kind),)
        if inner is kind:
            break
        for meta in metas:
            for name, sign in (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<")):
                if (bound := getattr(meta, name, None)) is not None:
                    said.append(f"{sign} {bound}")
            if (least := getattr(meta, "min_length", None)) is not None:
                said.append("that is not empty" if least == 1 else f"of at least {least}")
            if (most := getattr(meta, "max_length", None)) is not None:
                said.append(f"of at most {most}")
            if (pattern := getattr(meta, "pattern", None)) is not None:
                said.append(f"that matches {pattern}")
        kind = inner
    return "".join(f" {one}" for one in said[:1]) + "".join(f" and {one}" for one in said[1:])


def _only(union: Any) -> Any:
    others = [one for one in get_args(union) if one is not type(None)]
    return others[0] if len(others) == 1 else union


def _unit(kind: Any, name: str) -> str | None:
    if bare(kind) not in {int, float}:
        return None
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), None)


def _converted(value: Any, unit: str | None) -> str:
    """The number for a text such as `10m`."""
    match = _WITH_UNIT.fullmatch(value) if isinstance(value, str) and unit is not None else None
    if match is None or unit is None or match["unit"] not in _SIZES[unit]:
        return ""
    return f": write {float(match['number']) * _SIZES[unit][match['unit']]:.15g}"


def _shown(value: Any, hint: Any) -> str:
    """A value in a message. A text where one may be is not shown: it may be a secret."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        if not value:
            return "an empty text"
        if hint is str or is_section(hint) or get_origin(hint) in {tuple, dict}:
            return "a text"
        return repr(value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}…")
    return str(value)
