"""Ask the admin port of a running proxy for its groups: for ``epochgate status`` and ``epochgate policy plan``."""

import urllib.error
import urllib.parse
import urllib.request
from typing import Protocol, TypeVar

import msgspec


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


class Page(Protocol):
    """An answer of ``/api/groups``, or what of it somebody wants to know."""

    @property
    def groups(self) -> tuple[_HasId, ...]:
        """The groups of this page, by id."""
        ...

    @property
    def left_out(self) -> int:
        """How many groups come behind them."""
        ...


P = TypeVar("P", bound=Page)


def fetch_groups(
    url: str, kind: type[P], *, timeout_s: float, events: bool = False, group: str | None = None
) -> P:
    """All groups of the proxy at ``url`` (``http://host:port``), page by page, or one; ``kind`` is a msgspec Struct.

    :raises OSError: nobody answers there, or with an error.
    :raises ValueError: what answers is no Epochgate.
    """
    asked = {"events": "1"} if events else {}
    if group is not None:
        asked["id"] = group
    page = _fetch(url, asked, kind, timeout_s)
    groups = page.groups
    known = {one.id for one in groups}
    while page.left_out and page.groups:
        page = _fetch(url, asked | {"after": groups[-1].id}, kind, timeout_s)
        if not known.isdisjoint(one.id for one in page.groups):
            break  # it does not know pages, and tells the same again
        known.update(one.id for one in page.groups)
        groups += page.groups
    if group is not None:
        groups = tuple(one for one in groups if one.id == group)
    return msgspec.structs.replace(page, groups=groups)  # type: ignore[type-var]  # kind is a Struct


def _fetch(url: str, asked: dict[str, str], kind: type[P], timeout_s: float) -> P:
    query = f"?{urllib.parse.urlencode(asked, errors='replace')}" if asked else ""
    try:
        with urllib.request.urlopen(f"{url}/api/groups{query}", timeout=timeout_s) as answer:  # noqa: S310  http(s) only
            return msgspec.json.decode(answer.read(), type=kind)
    except urllib.error.HTTPError as error:
        error.close()
        raise
