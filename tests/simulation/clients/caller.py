"""Base of all simulated clients: connections, outstanding requests, and the partitions in use."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from protocol_codecs import ApiKey
from tests.simulation.kernel import Kernel
from tests.simulation.network import Link
from tests.simulation.standing import Pid
from tests.simulation.watch import Watch
from tests.simulation.wire import Ask, Reply

RECONNECT_MS = 100


class Surroundings(Protocol):
    """The interface of the world that a client uses."""

    kernel: Kernel
    watch: Watch

    def next_start_number(self) -> int:
        """Return the next number in the order in which processes start."""
        ...

    def dial(self, client: "Caller", line: str) -> Link | None:
        """Connect to the address of this client's coordinator; None if nothing listens there."""
        ...


class Outstanding:
    """A request without an answer yet."""

    __slots__ = ("ask", "asked_ms", "on_lost", "on_reply")

    def __init__(
        self, ask: Ask, asked_ms: int, on_reply: Callable[[Any], None], on_lost: Callable[[], None]
    ) -> None:
        self.ask = ask
        self.asked_ms = asked_ms
        self.on_reply = on_reply
        self.on_lost = on_lost


class Caller:
    """One process of a consumer. ``held`` are the partitions that its application works on, by topic id and index."""

    def __init__(self, name: str, world: Surroundings) -> None:
        self.name = name
        self.host = f"/{name}"
        self.world = world
        self.kernel = world.kernel
        self.watch = world.watch
        self.alive = True
        self.start_number = world.next_start_number()
        self.held: frozenset[Pid] = frozenset()
        self.lines: dict[str, Link] = {}
        self._outstanding: dict[Link, deque[Outstanding]] = {}
        self._last_number = 0

    def __repr__(self) -> str:
        return self.name

    # -- time ------------------------------------------------------------------------------------------------------

    def later(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Schedule an action, skipped if this process has ended by then."""
        self.kernel.after(delay_ms, self._if_alive, action, arguments)

    def _if_alive(self, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if self.alive:
            action(*arguments)

    # -- partitions ------------------------------------------------------------------------------------------------

    def hold(self, partitions: Iterable[Pid]) -> None:
        """Set the partitions that the application works on."""
        held = frozenset(partitions)
        if held != self.held:
            before, self.held = self.held, held
            self.watch.holds(self, before, held)

    # -- the end ---------------------------------------------------------------------------------------------------

    def stop(self, why: str, *, silently: bool = False) -> None:
        """End the process. ``silently``: its host is gone too, so no peer learns of the closed connections."""
        if not self.alive:
            return
        self.watch.stopped(self, why)
        self.hold(())
        self.alive = False
        for link in list(self._outstanding):
            if silently:
                link.abandon(self)
            else:
                link.close(self)
        self._outstanding.clear()
        self.lines.clear()

    # -- requests --------------------------------------------------------------------------------------------------

    def ask(
        self,
        line: str,
        api_key: ApiKey,
        version: int,
        message: Any,
        on_reply: Callable[[Any], None],
        on_lost: Callable[[], None],
        *,
        timeout_ms: int,
    ) -> None:
        """Send a request on a line, dialled if necessary; call ``on_lost`` if the line breaks before the answer."""
        link = self.lines.get(line)
        if link is None:
            link = self.world.dial(self, line)
            if link is None:
                self.later(RECONNECT_MS, on_lost)
                return
            self.lines[line] = link
            self._outstanding[link] = deque()
        self._last_number += 1
        ask = Ask(self._last_number, api_key, version, self.name, message)
        outstanding = Outstanding(ask, self.kernel.now_ms, on_reply, on_lost)
        self._outstanding[link].append(outstanding)
        self.watch.asked(self, link, ask)
        link.send(self, ask)
        self.later(timeout_ms, self._timed_out, link, outstanding)

    def count_outstanding(self) -> int:
        """Count its requests that have no answer yet."""
        return sum(map(len, self._outstanding.values()))

    def _timed_out(self, link: Link, outstanding: Outstanding) -> None:
        if outstanding in self._outstanding.get(link, ()):
            self.watch.timed_out(self, link, outstanding.ask, outstanding.asked_ms)
            self.close_line(link)

    def close_line(self, link: Link) -> None:
        """Close a connection, for example after a request timeout."""
        link.close(self)
        self.disconnected(link)

    def close_lines(self) -> None:
        """Close every connection, to look for the coordinator again."""
        for link in list(self._outstanding):
            self.close_line(link)

    def leave_lines(self) -> dict[str, Link]:
        """Dial anew for the next requests, but keep every connection open; return the connections by line."""
        left = dict(self.lines)
        self.lines.clear()
        return left

    def return_to_lines(self, left: dict[str, Link]) -> None:
        """Close the connections dialled since, and use the ones that were left again, as far as they are open."""
        kept = list(left.values())
        for link in dict.fromkeys(self.lines.values()):  # in their own order, which a set would not keep
            if link not in kept:
                self.close_line(link)
        self.lines.update({line: link for line, link in left.items() if link in self._outstanding})

    def retire_line(self, line: str) -> None:
        """Close a line, after its requests in flight have arrived; the next request dials another connection."""
        link = self.lines.pop(line, None)
        if link is not None:
            for one in self._outstanding.pop(link, ()):
                self.later(RECONNECT_MS, one.on_lost)
            link.close(self)

    def received(self, link: Link, reply: Reply) -> None:
        outstanding = self._outstanding.get(link)
        if outstanding is None:
            return
        self.watch.got(self, outstanding[0].ask if outstanding else None, reply)
        outstanding.popleft().on_reply(reply.message)

    def disconnected(self, link: Link) -> None:
        outstanding = self._outstanding.pop(link, None)
        if outstanding is None:
            return
        for line in [line for line, its in self.lines.items() if its is link]:
            del self.lines[line]
        self.watch.lost_line(self, link)
        for one in outstanding:
            self.later(RECONNECT_MS, one.on_lost)
