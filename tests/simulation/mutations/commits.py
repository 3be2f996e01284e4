"""Mutations of commits that go to the broker beside each other, and of the heartbeats that wait for none of them."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from translation.engine.scheduler import Scheduler
from translation.members.procedure import ProcedureQueue, RunningProcedure


def send_commits_of_two_epochs_side_by_side() -> AbstractContextManager[Any]:
    """A commit with the newest epoch does not wait for those with an older one, which may have to be sent again."""
    return patch.object(ProcedureQueue, "sent_beside", None)


def send_a_refused_commit_again_behind_the_others() -> AbstractContextManager[Any]:
    """What the broker refuses for its epoch is sent again behind the commits that wait already."""

    def broken(procedure: RunningProcedure) -> None:
        procedure.queue.waiting.append(procedure)

    return patch.object(Scheduler, "_put_in_front", staticmethod(broken))


def keep_alive_when_no_commit_is_under_way() -> AbstractContextManager[Any]:
    """A heartbeat of the proxy's own accord waits until no commit of its member is under way."""

    def broken(self: Scheduler, generator: Any, queue: ProcedureQueue, *about: Any) -> None:
        if queue.idle:
            self.start(generator, queue, *about)

    return patch.object(Scheduler, "start_keep_alive", broken)


def join_beside_commits() -> AbstractContextManager[Any]:
    """No call of a member waits for the answers to its commits on other connections."""
    start = Scheduler.start

    def broken(*arguments: Any, **named: Any) -> RunningProcedure:
        return start(*arguments, **{**named, "beside": True})

    return patch.object(Scheduler, "start", broken)


def heartbeat_whoever_has_the_turn() -> AbstractContextManager[Any]:
    """A heartbeat of the proxy's own accord takes no turn, so that it crosses those of the client's calls."""

    def broken(self: Scheduler, generator: Any, queue: ProcedureQueue, *about: Any) -> None:
        if queue.keep_alive is None:
            self.start(generator, ProcedureQueue(), *about)

    return patch.object(Scheduler, "start_keep_alive", broken)
