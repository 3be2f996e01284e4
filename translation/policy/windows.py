"""The ``windows`` of time in which members of live groups may be moved: days of the week and hours of a time zone.

A window is open while the clock on the wall of its time zone shows a time from ``from`` up to ``to``, on one of its
days. So on the day on which clocks are put forward, a window within the hour that is left out does not open; on the day
on which they are put back, one within the hour that comes twice is open both times. A window ends at midnight at the
latest: one through the night is two windows, and which day the second half belongs to is then written down.
"""

import datetime as dt
import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00", re.ASCII)
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*", re.ASCII)

MOST_WINDOWS = 50
"""Windows of one rule."""


class Window(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True, rename={"from_": "from"}
):
    """One window of time of a rule's ``windows``."""

    days: Annotated[
        str,
        Meta(description="Days of the week: `mon-fri`, or `sat,sun`, or `fri-mon`; all of them by default."),
    ] = "mon-sun"
    from_: Annotated[str, Meta(description="When it opens, `HH:MM` on the clock of `timezone`.")] = "00:00"
    to: Annotated[
        str,
        Meta(description="When it closes, `HH:MM`, later than `from`; `24:00` is the end of the day."),
    ] = "24:00"
    timezone: Annotated[
        str, Meta(description="A time zone of the IANA database, such as `Europe/Berlin`.")
    ] = "UTC"

    def __post_init__(self) -> None:
        """Refuse a window that never opens, days and times of another form, and unknown time zones."""
        _days(self.days)
        if _minutes("from", self.from_) >= _minutes("to", self.to):
            raise ValueError(
                f"a window from {self.from_} to {self.to}: `to` has to be later than `from`; one over midnight is two "
                "windows, up to 24:00 and from 00:00 of the next day"
            )
        _zone(self.timezone)

    @cached_property
    def _times(self) -> tuple[frozenset[int], int, int]:
        return _days(self.days), _minutes("from", self.from_), _minutes("to", self.to)

    def is_open(self, at_ms: int) -> bool:
        """Whether it is open at a time, in milliseconds since 1970 (UTC)."""
        try:
            local = dt.datetime.fromtimestamp(at_ms / 1000, _zone(self.timezone))
        except (OverflowError, OSError, ValueError):
            return False  # no time that a clock shows
        days, opens, closes = self._times
        return local.weekday() in days and opens <= local.hour * 60 + local.minute < closes

    def __str__(self) -> str:
        return f"{self.days} {self.from_}-{self.to} {self.timezone}"


def is_open(windows: Sequence[Window], at_ms: int) -> bool:
    """Whether one of the windows is open at a time (milliseconds since 1970); without windows always."""
    return not windows or any(window.is_open(at_ms) for window in windows)


def text_of(windows: Sequence[Window]) -> str:
    """The windows for people."""
    return ", ".join(map(str, windows))


@lru_cache(maxsize=64)
def _zone(name: str) -> dt.tzinfo:
    import zoneinfo  # noqa: PLC0415 - few policies have windows

    # A name that is a path must not make anybody read other files.
    if len(name) > 64 or _ZONE.fullmatch(name) is None:
        raise ValueError(f"unknown time zone {name[:64]!r}")
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {name!r}") from None


def _minutes(key: str, text: str) -> int:
    if _TIME.fullmatch(text) is None or (key == "from" and text == "24:00"):
        raise ValueError(f"`{key}` of a window is a time such as 09:00, not {text!r}")
    return int(text[:2]) * 60 + int(text[3:])


def _days(text: str) -> frozenset[int]:
    found = set[int]()
    for part in text.lower().replace(" ", "").split(","):
        first, is_range, last = part.partition("-")
        last = last if is_range else first
        if first not in _DAYS or last not in _DAYS:
            raise ValueError(f"`days` of a window are such as mon-fri or sat,sun, not {text!r}")
        day = _DAYS.index(first)
        found.add(day)
        while _DAYS[day] != last:
            day = (day + 1) % len(_DAYS)
            found.add(day)
    return frozenset(found)
