"""Connectors and tasks: what a Connect group divides among its workers."""

from collections.abc import Iterable

import msgspec

from coordinator.errors import RequestRefused
from protocol_codecs.connect_groups import ConnectorsAndTasks, ConnectorTaskId
from protocol_codecs.error_code import ErrorCode

CONNECTOR = -1
"""Stands for the connector itself among its tasks, as in Connect's embedded protocol."""


class Work(msgspec.Struct, frozen=True, order=True):
    """One connector (task :data:`CONNECTOR`) or one task of it."""

    connector: str
    task: int = CONNECTOR

    def __str__(self) -> str:
        return (
            f"connector {self.connector!r}"
            if self.task == CONNECTOR
            else f"task {self.connector}-{self.task}"
        )


WorkSet = frozenset[Work]


def listed(lists: Iterable[ConnectorsAndTasks]) -> list[Work]:
    """Return what a message lists, in its order, with doubles."""
    return [
        work
        for one in lists
        for work in (
            *(Work(connector) for connector in one.connectors),
            *(Work(task.connector, task.task) for task in one.tasks),
        )
    ]


def work_set(lists: Iterable[ConnectorsAndTasks], limit: int) -> WorkSet:
    """Return what a request lists. Raises RequestRefused with INVALID_REQUEST for doubles, bad names and too many."""
    lists = tuple(lists)
    count = sum(len(one.connectors) + len(one.tasks) for one in lists)
    if count > limit:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, f"{count} connectors and tasks; at most {limit}")
    works = listed(lists)
    tasks = [task.task for one in lists for task in one.tasks]
    if any(task < 0 for task in tasks) or any(not work.connector for work in works):
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "a connector without a name, or a negative task")
    if len(set(works)) < len(works):
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "a connector or task is listed twice")
    return frozenset(works)


def as_message(works: Iterable[Work]) -> tuple[ConnectorsAndTasks, ...]:
    """Return the form of messages and records: one list, sorted; none if there is nothing."""
    ordered = sorted(works)
    if not ordered:
        return ()
    return (
        ConnectorsAndTasks(
            connectors=tuple(work.connector for work in ordered if work.task == CONNECTOR),
            tasks=tuple(
                ConnectorTaskId(connector=work.connector, task=work.task)
                for work in ordered
                if work.task != CONNECTOR
            ),
        ),
    )


def from_message(lists: Iterable[ConnectorsAndTasks]) -> WorkSet:
    """Return what a record lists."""
    return frozenset(listed(lists))
