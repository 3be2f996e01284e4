"""Whether silent members may be expired (``fleet.expires``): whether every process that serves these clients writes
the member log, by two names of their addresses (``fleet.replica_names``).

In Kubernetes these are headless Services: one selects all pods, one those whose label says that they write this log.
Both publish addresses of pods that are not ready or are ending, since these may serve clients too. An answer may come
from a cache that is older than this process, and so lack pods of that time; one that has this process's own address is
not. What is decided by it is in :meth:`~translation.member_log.member_log.MemberLog.trust_silence`.
"""

import ipaddress
import socket
from collections.abc import Awaitable, Callable

import msgspec
import trio

LOOKUP_EVERY_S = 5.0
"""Name servers keep an answer for 5 to 30 s."""
DOUBT_S = 10.0
"""So long an address may be without its label, while the two names are read from caches of different age."""
NOT_KNOWN_YET = "it is not known yet whether every replica writes this log"

_SHOWN = 5
"""Addresses that a message names at most."""

Addresses = frozenset[str]
Resolve = Callable[[str], Awaitable["Addresses | None"]]
"""The addresses of a name, none if there is no such name; None: no name server answered."""


class Lookup(msgspec.Struct, frozen=True):
    """What the two names gave: the addresses of every process, and of those that write the log. None: not known."""

    every: Addresses | None
    writing: Addresses | None


class WriterWatch:
    """Decides by lookups. ``all_write`` is their result, and ``why_not`` is for people."""

    def __init__(self, own_address: str) -> None:
        self._own = str(ipaddress.ip_address(own_address))
        self.all_write = False
        self.why_not: str | None = NOT_KNOWN_YET
        self._missing_since: dict[str, float] = {}

    def note(self, lookup: Lookup, now: float) -> None:
        """Take a lookup into account. One that failed changes nothing but the reason."""
        if lookup.every is None or lookup.writing is None:
            if not self.all_write:
                self.why_not = (
                    "no name server answers, so it is not known whether every replica writes this log"
                )
            return
        missing = (lookup.every | {self._own}) - (lookup.every & lookup.writing)
        self._missing_since = {one: self._missing_since.get(one, now) for one in missing}
        if not missing:
            self.all_write, self.why_not = True, None
        elif not self.all_write or now - min(self._missing_since.values()) >= DOUBT_S:
            self.all_write = False
            named = ", ".join(sorted(missing)[:_SHOWN])
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            self.why_not = f"replicas that may not write this log: {named}{more}"


async def resolve(name: str) -> Addresses | None:
    """Ask for the addresses of a name. See :data:`Resolve`."""
    try:
        found = await trio.socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return frozenset() if error.errno in (socket.EAI_NONAME, socket.EAI_NODATA) else None
    except (OSError, UnicodeError):
        return None
    return frozenset(str(ipaddress.ip_address(str(at[4][0]).partition("%")[0])) for at in found)


async def watch(
    every: str, writing: str, own_address: str, report: Callable[[WriterWatch], None], ask: Resolve = resolve
) -> None:
    """Look the two names up until cancelled, and report after each lookup."""
    watched = WriterWatch(own_address)
    while True:
        lookup = Lookup(await ask(every), await ask(writing))
        watched.note(lookup, trio.current_time())
        report(watched)
        await trio.sleep(LOOKUP_EVERY_S)
