"""Named queries that every process answers with a value that msgspec can encode."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

T = TypeVar("T")

QueryHandler = Callable[[], Awaitable[Any]]
"""Computes the result of one query. It runs on the trio thread, so long work must yield
(:mod:`proxy.runtime.time_slice`)."""

QueryHandlers = Mapping[str, QueryHandler]
"""The handlers of one process by name of the query."""


class Readiness(msgspec.Struct, frozen=True):
    """Whether a process should be given clients; ``reason`` says why not."""

    reason: str | None


class Processes(Protocol):
    """All processes that serve clients, whether one or several workers."""

    async def query(self, name: str, kind: type[T]) -> list[T]:
        """Return the results, decoded as ``kind``, of all processes that have such a query and answer in time."""
        ...


class SingleProcess:
    """This process, which serves alone with ``workers: 1``."""

    def __init__(self, handlers: QueryHandlers) -> None:
        self._handlers = handlers

    async def query(self, name: str, kind: type[T]) -> list[T]:
        """See :class:`Processes`."""
        handler = self._handlers.get(name)
        return [] if handler is None else [msgspec.convert(await handler(), kind)]
