"""Mutations of who may act for a group or a member."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from protocol_codecs import ErrorCode
from translation.actions import Request
from translation.admission import authorization
from translation.engine import registry
from translation.engine.authorized_groups import AuthorizedGroups
from translation.engine.context import Context
from translation.members.member_ids import NativeMembers
from translation.routing import relayed_calls
from translation.upstream import relayed_responses


def let_everybody_act() -> AbstractContextManager[Any]:
    """Nobody asks the broker whether the sender of a call may act in its group."""
    return patch.object(authorization, "is_authorized", lambda *_: True)


def ask_once_for_each_connection() -> AbstractContextManager[Any]:
    """A connection that the broker accepted once speaks for members that are served on others."""
    is_authorized = authorization.is_authorized

    def broken(context: Context, request: Request, *rest: Any) -> bool:
        includes = context.authorized_groups.includes
        return includes(request.connection.id, request.message.group_id) or is_authorized(
            context, request, *rest
        )

    return patch.object(authorization, "is_authorized", broken)


def take_any_answer_for_a_yes() -> AbstractContextManager[Any]:
    """The broker is asked whether the sender may act, and its answer is ignored."""
    return patch.object(authorization, "ALLOWED", frozenset(ErrorCode))


def admit_all_connections_of_a_group() -> AbstractContextManager[Any]:
    """The broker's acceptance on one connection counts on every other."""

    def broken(self: AuthorizedGroups, connection_id: Any, group_id: str) -> bool:
        return any(group_id in groups for groups in self._groups.values())

    return patch.object(AuthorizedGroups, "includes", broken)


def admit_all_groups_of_a_connection() -> AbstractContextManager[Any]:
    """The broker's acceptance for one group counts for every other."""

    def broken(self: AuthorizedGroups, connection_id: Any, group_id: str) -> bool:
        return connection_id in self._groups

    return patch.object(AuthorizedGroups, "includes", broken)


def believe_relayed_calls() -> AbstractContextManager[Any]:
    """A call that was relayed counts, whatever the broker answered to it."""
    return patch.object(relayed_responses, "_ACCEPTED", frozenset(ErrorCode))


@contextmanager
def adopt_whoever_commits() -> Iterator[None]:
    """A member of the new protocol that nobody translates is adopted when it commits."""
    with (
        patch.object(NativeMembers, "__contains__", lambda self, key: False),
        patch.object(relayed_calls, "may_be_translated", lambda member_id: True),
        patch.object(registry, "may_be_translated", lambda member_id: True),
    ):
        yield
