"""Multi-step procedures as generators: yield a request or a wait, resume with the result.

A classic request often needs several requests to the broker (leave the old membership, join again, look up a topic
name). Each such procedure is a generator. It yields a :class:`~translation.actions.Call` and is resumed with the
decoded response (or by :class:`UpstreamLost`), or a :class:`Wait` and is resumed when its time has come or another
procedure wakes it. Nothing here awaits: the :class:`~translation.engine.scheduler.Scheduler` adds to a Call on which
connection it goes, and gets the response later.

The procedures of one member run one at a time, in the order in which their requests came (:class:`ProcedureQueue`).
A procedure that yields a Wait lets others run, so that a commit does not wait behind a JoinGroup that waits for
partitions. One that yields a :class:`CallBeside` lets those run that change nothing for it: further commits, and the
heartbeats of the proxy's own accord. A procedure that waits for the broker holds up requests from other connections for
``turn_limit_s`` at most (:class:`~translation.settings.TranslatorSettings`): its client may have stopped reading.
"""

import math
from collections import deque
from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from translation.actions import Call, CallId, ConnectionId, Request
from translation.member_log.records import MemberKey


class Wait(msgspec.Struct, frozen=True):
    """Let other procedures of the queue run until ``until`` (seconds); resume with a :class:`WakeReason`.

    With ``settles`` it is resumed earlier, as soon as the member log has settled something of this member.
    """

    until: float
    settles: MemberKey | None = None


class CallBeside(Call, frozen=True):
    """As a Call, and give up the turn: the response changes nothing that others of the queue rely on.

    Until it comes only procedures run that were started as ``beside``. When it is there the procedure is resumed
    whoever has the turn, so it may only end, or yield a :class:`Turn`.
    """


class Turn(msgspec.Struct, frozen=True):
    """Resume when no other procedure of the queue runs, and every :class:`CallBeside` has its response.

    ``again``: this procedure has sent something that it may send once more. It comes before all that have not sent
    anything, behind those that had their response before, so that what they send keeps its order.
    """

    again: bool = False


class WakeReason(Enum):
    """Why a waiting procedure is resumed."""

    TIME = "its time has come"
    SUPERSEDED = "a newer call of the same kind takes over"
    MEMBERSHIP_LOST = "the broker has no such membership any more"
    REPLACED = "another process has its instance id"
    TAKEN = "another replica serves the member"
    ABANDONED = "nobody waits for the outcome any more"
    SETTLED = "the member log has settled what it was asked"


class UpstreamLost(Exception):
    """The upstream connection closed before the response came; the broker may have acted or not."""


Result = TypeVar("Result")

Procedure: TypeAlias = Generator[Call | Wait | Turn, Any, Result]
"""A multi-step procedure: yields requests and waits, and returns its result."""


class ReplyHandler(Protocol):
    """Handles the response to the first request of a procedure, so that most need no generator."""

    def __call__(self, answer: Any) -> Procedure[None] | None:
        """Handle the response, or :class:`UpstreamLost`; return the rest of the procedure, None if it has ended."""
        ...


def _nothing() -> None:
    pass


class ProcedureQueue:
    """The procedures of one member, of which one runs at a time. ``on_idle`` is called when none is left."""

    __slots__ = ("beside", "keep_alive", "on_idle", "running", "waiting")

    def __init__(self, on_idle: Callable[[], None] = _nothing) -> None:
        self.running: RunningProcedure | None = None
        self.beside: dict[RunningProcedure, None] = {}
        """Those that wait for the response to a :class:`CallBeside`, the one that was sent first in front."""
        self.keep_alive: RunningProcedure | None = None
        """The heartbeat of the proxy's own accord that has not ended; at most one is started."""
        self.waiting: deque[RunningProcedure] = deque()
        self.on_idle = on_idle

    def detach_owner(self) -> None:
        """Stop calling ``on_idle``: the owner was dropped, and the two would keep each other alive as a cycle."""
        self.on_idle = _nothing

    @property
    def idle(self) -> bool:
        """Whether no procedure runs and none waits."""
        return self.running is None and not self.waiting and not self.beside

    @property
    def has_turn_for_beside(self) -> bool:
        """Whether a procedure that is started as ``beside`` begins at once."""
        return self.running is None and not self.waiting

    @property
    def sent_beside(self) -> Call | None:
        """The request that was sent last of those that wait beside; None if none does."""
        return next(reversed(self.beside)).sent if self.beside else None

    @property
    def running_on(self) -> ConnectionId | None:
        """The connection of the procedure that runs; None if none does."""
        return None if self.running is None else self.running.connection_id


class RunningProcedure:
    """One procedure that has not ended: running, waiting for its turn, or in a Wait."""

    __slots__ = (
        "_on_time",
        "again",
        "beside",
        "call_id",
        "client_id",
        "connection_id",
        "ends_session",
        "generator",
        "on_reply",
        "queue",
        "request",
        "sent",
        "settles",
        "started",
        "timer_at",
        "turn_began_at",
        "until",
        "waiting_since",
        "wake_reason",
    )

    def __init__(
        self,
        generator: Procedure[None] | None,
        queue: ProcedureQueue,
        connection_id: ConnectionId,
        client_id: str | None,
        on_reply: ReplyHandler | None,
        on_time: Callable[["RunningProcedure", float], None],
    ) -> None:
        self._on_time = on_time
        self.generator = generator
        self.on_reply = on_reply
        self.queue = queue
        self.connection_id = connection_id
        self.client_id = client_id
        self.timer_at = math.inf
        self.until = math.inf
        self.settles: MemberKey | None = None
        """The member of which something has to be settled before it goes on, while it waits for that."""
        self.wake_reason: WakeReason | None = None
        self.request: Request | None = None
        """The JoinGroup that this procedure answers, while it waits for partitions."""
        self.ends_session = False
        """Whether it ends the membership of a client that was silent for its session timeout."""
        self.beside = False
        """Whether its turn may begin while others wait for the response to a :class:`CallBeside`."""
        self.again = False
        """Whether it waits for a :class:`Turn` to send something once more."""
        self.started = False
        self.call_id: CallId | None = None
        """The call whose response it waits for."""
        self.sent: Call | None = None
        """The request that it sent last."""
        self.waiting_since = math.inf
        """Since when it has waited for its turn (seconds)."""
        self.turn_began_at = -math.inf

    def on_time(self, now: float) -> None:
        """A booked time has come: the end of a Wait, or the limit of a request that has no response yet."""
        self._on_time(self, now)
