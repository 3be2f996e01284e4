"""One epoll loop, in one trio task, watches the sockets of all connections of a process.

With trio alone each read costs a round of its scheduler: it wakes a task, which asks the kernel to wake it again and
sleeps. That costs more than what the proxy does with a small frame. Here a reader registers a callback; the loop calls
it when the socket becomes readable, and wakes the reader's task only when the callback asks for that.

After a callback more bytes are usually on their way: the broker's response to what was just relayed, or the client's
next request. The loop polls for them without returning to trio. It returns at once when another task becomes ready (a
trio instrument notices). What trio itself waits for (the admin port, a deadline) is late by :data:`MAX_TRIO_DELAY_S` at
most; :func:`trio_priority` is for code that can't wait that long.
"""

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterator

import trio

MAX_TRIO_DELAY_S = 0.01
"""Seconds after which the loop returns to trio, however much there is to read."""

_EVENTS_AT_ONCE = 64
_READABLE = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR
_WRITABLE = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR

_current: trio.lowlevel.RunVar["EpollLoop | None"] = trio.lowlevel.RunVar("loop", None)


def current() -> "EpollLoop | None":
    """Return the loop of this trio run; None if none runs."""
    return _current.get() if trio.lowlevel.in_trio_run() else None


async def wait_readable(sock: socket.socket) -> None:
    """Wait until the socket is readable, or has a connection to accept.

    :raises trio.ClosedResourceError: it was closed here.
    """
    number = sock.fileno()
    if number == -1:
        raise trio.ClosedResourceError
    loop = current()
    if loop is None:
        await trio.lowlevel.wait_readable(number)
    else:
        await loop.read(number)


def notify_closing(sock: socket.socket) -> None:
    """Wake whoever waits for this socket, with :exc:`trio.ClosedResourceError`; the caller closes it next."""
    trio.lowlevel.notify_closing(sock)
    loop = current()
    if loop is not None:
        loop.closing(sock.fileno())


@contextlib.contextmanager
def trio_priority() -> Iterator[None]:
    """Make the loop return to trio after each read while this block runs, for code that must not be late."""
    loop = current()
    if loop is None:
        yield
        return
    loop.trio_priorities += 1
    try:
        yield
    finally:
        loop.trio_priorities -= 1


def _enough() -> bool:
    return False


class _Wait:
    """A waiting task, the callback that is called instead of waking it, and the error that the callback raised."""

    __slots__ = ("error", "on_ready", "task")

    def __init__(self, on_ready: Callable[[], bool]) -> None:
        self.task = trio.lowlevel.current_task()
        self.on_ready = on_ready
        self.error: Exception | None = None


class _OtherTasks(trio.abc.Instrument):
    """A trio instrument that notices when another task than this one becomes ready."""

    def __init__(self) -> None:
        self._me = trio.lowlevel.current_task()
        self.scheduled = False

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """Called by trio for each task that becomes ready."""
        if task is not self._me:
            self.scheduled = True


class EpollLoop:
    """See the module. A socket is identified by its file descriptor."""

    def __init__(self) -> None:
        self.trio_priorities = 0
        """How many blocks of :func:`trio_priority` are running."""
        self._readers: dict[int, _Wait] = {}
        self._writers: dict[int, _Wait] = {}
        self._others: _OtherTasks
        self._epoll: select.epoll

    async def serve(self) -> None:
        """Run the loop until it is cancelled."""
        with select.epoll() as self._epoll:
            _current.set(self)
            self._others = _OtherTasks()
            trio.lowlevel.add_instrument(self._others)
            try:
                while True:
                    await trio.lowlevel.wait_readable(self._epoll)
                    self._dispatch()
            finally:
                trio.lowlevel.remove_instrument(self._others)
                _current.set(None)
                for number in {*self._readers, *self._writers}:
                    self._wake(self._readers, number)  # each tries again by itself, on trio alone
                    self._wake(self._writers, number)

    @property
    def is_serving(self) -> bool:
        """Whether :meth:`serve` runs."""
        return _current.get() is self

    async def read(self, number: int, on_ready: Callable[[], bool] = _enough) -> None:
        """Call ``on_ready`` whenever there is something to read (or the end, or an error), until it returns False.

        It may return False without a reason. An exception of it is raised here.

        :raises trio.ClosedResourceError: :meth:`closing` was called.
        """
        await self._wait(self._readers, number, on_ready)

    async def write(self, number: int) -> None:
        """Wait until the kernel takes bytes again, or the connection is broken.

        :raises trio.ClosedResourceError: :meth:`closing` was called.
        """
        await self._wait(self._writers, number, _enough)

    def closing(self, number: int) -> None:
        """Wake the tasks that wait for a descriptor which is about to be closed."""
        for waits in (self._readers, self._writers):
            if number in waits:
                waits[number].error = trio.ClosedResourceError()
                self._wake(waits, number)

    async def _wait(self, waits: dict[int, _Wait], number: int, on_ready: Callable[[], bool]) -> None:
        if number in waits:
            raise trio.BusyResourceError("another task waits for this socket")

        def give_up(_: object) -> trio.lowlevel.Abort:
            del waits[number]
            self._watch(number)
            return trio.lowlevel.Abort.SUCCEEDED

        waits[number] = wait = _Wait(on_ready)
        try:
            self._watch(
                number, new=number not in (self._writers if waits is self._readers else self._readers)
            )
        except OSError:  # the kernel has no room for one more (fs.epoll.max_user_watches)
            del waits[number]
            raise
        await trio.lowlevel.wait_task_rescheduled(give_up)
        if wait.error is not None:
            raise wait.error

    def _watch(self, number: int, *, new: bool = False) -> None:
        """Have the kernel report what tasks wait for on this descriptor."""
        wanted = (select.EPOLLIN if number in self._readers else 0) | (
            select.EPOLLOUT if number in self._writers else 0
        )
        if new:
            self._epoll.register(number, wanted)
        elif wanted:
            self._epoll.modify(number, wanted)
        elif not self._epoll.closed:
            # Closed without notify_closing: the kernel has forgotten it already.
            with contextlib.suppress(OSError):
                # With an event mask of 0 the kernel would go on reporting errors.
                self._epoll.unregister(number)

    def _wake(self, waits: dict[int, _Wait], number: int) -> None:
        wait = waits.pop(number, None)
        if wait is not None:
            self._watch(number)
            trio.lowlevel.reschedule(wait.task)

    def _dispatch(self) -> None:
        """Call back for what is ready and becomes ready, until another task is ready or the time is up."""
        others = self._others
        # A task that became ready before this one may not have run yet: trio shuffles the tasks of one round.
        none_waits = not (others.scheduled or self.trio_priorities)
        others.scheduled = False
        until = time.perf_counter() + MAX_TRIO_DELAY_S
        left_s = 0.0
        while events := self._epoll.poll(left_s, _EVENTS_AT_ONCE):
            for number, event in events:
                if event & _READABLE and (wait := self._readers.get(number)) is not None:
                    try:
                        over = not wait.on_ready()
                    except Exception as error:  # noqa: BLE001  it belongs to the task that waits, and is raised there
                        wait.error, over = error, True
                    if over:
                        self._wake(self._readers, number)
                if event & _WRITABLE and number in self._writers:
                    self._wake(self._writers, number)
            left_s = until - time.perf_counter()
            if others.scheduled or self.trio_priorities or not none_waits or left_s <= 0:
                return
