"""Connections: two directions, each in order, each with its own delays, and all the ways in which they end.

A connection that is closed delivers what was sent before. One that is cut delivers nothing more; each side learns of it
at its own time, and until then goes on sending, as with a dead TCP peer.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from tests.simulation.authorizer import ALICE, Principal
from tests.simulation.kernel import Kernel

_CLOSED = object()


class Party(Protocol):
    """One end of a connection."""

    def received(self, link: "Link", message: Any) -> None:
        """Handle a message."""
        ...

    def disconnected(self, link: "Link") -> None:
        """Handle the end of the connection."""
        ...


class Pipe:
    """One direction of a connection."""

    __slots__ = ("broken", "in_flight", "last_at_ms", "link", "loses_next", "party", "slow_until_ms")

    def __init__(self, link: "Link", party: Party) -> None:
        self.link = link
        self.party = party
        self.in_flight: deque[Any] = deque()
        self.broken = False
        self.last_at_ms = 0
        self.slow_until_ms = 0
        """A stall: nothing arrives before this."""
        self.loses_next: Callable[[], None] | None = None
        """Breaks the connection when the next message is sent here, which is lost."""

    def send(self, message: Any) -> None:
        if self.loses_next is not None and message is not _CLOSED:
            breaks, self.loses_next = self.loses_next, None
            breaks()
        if self.broken:
            return
        self.in_flight.append(message)
        self.link.network.carry(self)

    def deliver(self) -> None:
        """Deliver the first message in flight."""
        if self.broken:
            return
        message = self.in_flight.popleft()
        if message is _CLOSED:
            self.break_off()
            self.link.end_for(self.party)
        else:
            self.party.received(self.link, message)

    @property
    def ends(self) -> bool:
        """Whether the end of the connection is in flight."""
        return bool(self.in_flight) and self.in_flight[-1] is _CLOSED

    def break_off(self) -> None:
        """Stop delivering."""
        self.broken = True
        self.in_flight.clear()


class Link:
    """One connection from ``near``, which dialled, to ``far``, which accepted, with the rights of ``principal``.

    ``delay_ms`` returns the delay of each message; None leaves that to the network.
    """

    __slots__ = ("_ended", "delay_ms", "far", "name", "near", "network", "principal", "to_far", "to_near")

    def __init__(
        self,
        network: "Network",
        name: str,
        near: Party,
        far: Party,
        principal: Principal = ALICE,
        delay_ms: Callable[[], int] | None = None,
    ) -> None:
        self.network = network
        self.name = name
        self.near = near
        self.far = far
        self.principal = principal
        self.delay_ms = delay_ms
        self.to_far = Pipe(self, far)
        self.to_near = Pipe(self, near)
        self._ended: list[Party] = []

    def __repr__(self) -> str:
        return self.name

    def outgoing(self, party: Party) -> Pipe:
        return self.to_far if party is self.near else self.to_near

    def open_for(self, party: Party) -> bool:
        """Whether this side has not learned of an end."""
        return party not in self._ended

    def end_has_arrived_at(self, party: Party) -> bool:
        """Whether this side's kernel knows that the other side has ended the connection, read or not.

        What a stall has held up arrives at one moment, and so does an end behind it: in one segment, or in the next.
        """
        incoming = self.to_near if party is self.near else self.to_far
        return not self.open_for(party) or (incoming.ends and self.network.is_due(incoming))

    def send(self, sender: Party, message: Any) -> None:
        self.outgoing(sender).send(message)

    def close(self, closer: Party) -> None:
        """Close the connection from this side; the other side gets what was sent before, and then the end."""
        if closer in self._ended:
            return
        self._ended.append(closer)
        outgoing = self.outgoing(closer)
        (self.to_near if outgoing is self.to_far else self.to_far).break_off()
        outgoing.send(_CLOSED)

    def abandon(self, party: Party) -> None:
        """End this side without telling the other one, as when a process dies with its host."""
        if party not in self._ended:
            self._ended.append(party)
        self.to_far.break_off()
        self.to_near.break_off()

    def cut(self, *, near_hears_ms: int, far_hears_ms: int) -> None:
        """Break the connection; what is in flight is lost."""
        self.to_far.break_off()
        self.to_near.break_off()
        kernel = self.network.kernel
        kernel.after(near_hears_ms, self.end_for, self.near)
        kernel.after(far_hears_ms, self.end_for, self.far)

    def end_for(self, party: Party) -> None:
        """Tell one side that the connection has ended."""
        if party not in self._ended:
            self._ended.append(party)
            party.disconnected(self)


class Network:
    """Delivers messages with delays that the seed decides."""

    def __init__(self, kernel: Kernel, delay_ms: Callable[[], int]) -> None:
        self.kernel = kernel
        self._delay_ms = delay_ms

    def connect(
        self,
        name: str,
        near: Party,
        far: Party,
        principal: Principal = ALICE,
        delay_ms: Callable[[], int] | None = None,
    ) -> Link:
        return Link(self, name, near, far, principal, delay_ms)

    def carry(self, pipe: Pipe) -> None:
        kernel = self.kernel
        delay_ms = (pipe.link.delay_ms or self._delay_ms)()
        at_ms = max(kernel.now_ms + delay_ms, pipe.last_at_ms, pipe.slow_until_ms)
        pipe.last_at_ms = at_ms
        kernel.at(at_ms, pipe.deliver)

    def is_due(self, pipe: Pipe) -> bool:
        """Whether everything in flight on a pipe arrives at this moment."""
        return pipe.last_at_ms <= self.kernel.now_ms
