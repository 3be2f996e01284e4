"""The query parameters of the JSON interface: read strictly, and described for the OpenAPI document.

A parameter that is unknown, given twice or malformed is refused, as a key of the configuration is: a caller who
misspelt ``after`` would otherwise read the first page for ever.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

LARGEST_LIMIT = 1_000_000

_NUMBER = re.compile("[1-9][0-9]{0,6}")
_BOOLEANS = {"1": True, "true": True, "0": False, "false": False}


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request got no answer. ``group`` is the id of the group that was asked for, if it was one."""

    error: str
    group: str | None = None


class QueryError(Exception):
    """A query that makes no sense; the message is for the caller."""


class Parameter(msgspec.Struct, frozen=True):
    """One query parameter. ``read`` turns its text into a value, or raises ValueError with what was expected."""

    meaning: str
    schema: Mapping[str, Any]
    read: Callable[[str], Any]


def _boolean(text: str) -> bool:
    if text not in _BOOLEANS:
        raise ValueError("true or false")
    return _BOOLEANS[text]


def _limit(text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > LARGEST_LIMIT:
        raise ValueError(f"an integer from 1 to {LARGEST_LIMIT}")
    return int(text)


_ID = Parameter(
    "Only the group of this id. In a path below `/api/groups/` it takes the place of the path, for ids that HTTP "
    "clients change there (`.` and `..`).",
    {"type": "string"},
    str,
)
ONE_GROUP: Mapping[str, Parameter] = {"id": _ID}
"""What ``GET /api/groups/<id>`` takes."""

GROUPS: Mapping[str, Parameter] = {
    "events": Parameter(
        "With the latest events of each group.", {"type": "boolean", "default": False}, _boolean
    ),
    "id": _ID,
    "after": Parameter(
        "Only groups whose id comes after this one: for the next page, the last id of this page.",
        {"type": "string"},
        str,
    ),
    "limit": Parameter(
        "At most so many groups. More than `visibility.page_groups` of the configuration are never answered.",
        {"type": "integer", "minimum": 1, "maximum": LARGEST_LIMIT},
        _limit,
    ),
}
"""What ``GET /api/groups`` takes."""


def read_query(given: Iterable[tuple[str, str]], known: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the values of the parameters that are given.

    :raises QueryError: one is unknown, given twice or malformed.
    """
    values: dict[str, Any] = {}
    for name, text in given:
        if name not in known:
            expected = "one of " + ", ".join(f"`{one}`" for one in known) if known else "none"
            raise QueryError(f"unknown parameter {name!r}; expected {expected}")
        if name in values:
            raise QueryError(f"{name}: given twice")
        try:
            values[name] = known[name].read(text)
        except ValueError as expected_value:
            raise QueryError(f"{name}: expected {expected_value}, got {text!r}") from None
    return values
