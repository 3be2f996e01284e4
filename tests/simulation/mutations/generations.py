"""Mutations of how generations are given, remembered and checked."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from translation.apis import join_group
from translation.engine.connections import ClientConnections
from translation.members import generation
from translation.members.member import Member


def skip_the_generation_check() -> AbstractContextManager[Any]:
    """A commit is taken with any generation."""
    return patch.object(generation, "may_commit", lambda member, carried: True)


def forget_the_previous_generation() -> AbstractContextManager[Any]:
    """Between JoinGroup and SyncGroup a commit with the previous generation is refused."""
    return patch.object(generation, "may_commit", generation.is_current)


def remember_one_answered_generation() -> AbstractContextManager[Any]:
    """The answer to a second JoinGroup takes the place of a generation that the client still has."""
    answer = join_group.JoinGroups._answer

    def broken(self: Any, member: Member, *rest: Any) -> None:
        before = member.generation
        answer(self, member, *rest)
        member.previous_generation = before

    return patch.object(join_group.JoinGroups, "_answer", broken)


def look_for_a_client_where_a_late_call_came() -> AbstractContextManager[Any]:
    """A call with an older generation tells where its client is, and no later call tells better."""
    return patch.object(
        ClientConnections,
        "record_call",
        lambda self, member, connection, carried: self.bind(member, connection),
    )


def believe_any_newer_generation() -> AbstractContextManager[Any]:
    """A generation that the broker has not come to is taken for one that another process gave."""
    return patch.object(generation, "is_of_another_membership", lambda *_: False)
