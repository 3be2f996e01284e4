"""Judges whether consumers were fenced rightly: told FENCED_INSTANCE_ID, which ends them.

A fence says that a newer process has the instance id. A process is replaced here only when it has ended, so no two of
one place ever run at once, and nobody should be fenced. It is excused if

* a newer process of the same place had started before, or
* the client was outside of its contract: since it was assigned anything for the last time, and in the last two session
  timeouts before the fence, it had nothing from its coordinator for a whole session timeout. Then librdkafka has
  forgotten its member id, and is fenced by its own membership, straight at a broker too
  (tests/integration/test_fenced_by_itself.py).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from support.ownership import Event

from tests.jepsen.history import FROM_THE_COORDINATOR, History


class Fence(NamedTuple):
    """A consumer process was fenced; `excuse` is None if nothing excuses it."""

    told: Event
    excuse: str | None


def is_fence(event: Event) -> bool:
    """Whether a client reports that it was fenced."""
    is_fatal = event.kind == "failed" or (event.kind == "error" and event.fields.get("fatal", False))
    return is_fatal and "fenced" in str(event.fields.get("error", "")).lower()


def fences(history: History) -> Iterator[Fence]:
    """Yield the first fence of each process."""
    for client, log in history.logs.items():
        told = next((event for event in log if is_fence(event)), None)
        if told is not None:
            yield Fence(told, _excuse(history, client, log, told))


def _excuse(history: History, client: str, log: Sequence[Event], told: Event) -> str | None:
    if _has_rival(history, client, log, told):
        return "by a newer process"
    words = [event for event in log if event.kind in FROM_THE_COORDINATOR and event.mono < told.mono]
    last_joined = max((event.mono for event in words if event.kind == "assigned"), default=0)
    since = [event.mono for event in words if event.mono >= last_joined]
    recently = told.mono - 2 * history.session_ns
    if any(
        later - earlier >= history.session_ns and later >= recently
        for earlier, later in pairwise([*since, told.mono])
    ):
        return "after their session had passed"
    return None


def _has_rival(history: History, client: str, log: Sequence[Event], told: Event) -> bool:
    place = client.rpartition(".")[0]
    return any(
        other.rpartition(".")[0] == place and log[0].mono < theirs[0].mono < told.mono
        for other, theirs in history.logs.items()
        if other != client and log and theirs
    )
