"""Mutations of static members: which process has an instance id."""

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from protocol_codecs import ErrorCode
from translation.actions import Request
from translation.engine import join_outcomes
from translation.engine.context import Context
from translation.members.member import Member
from translation.membership import static_members


def do_not_replace_static_members() -> AbstractContextManager[Any]:
    """A new process with a known instance id is refused, as the broker refuses it."""

    def broken(context: Context, member: Member, request: Request, *, is_new: bool) -> Any:
        raise join_outcomes.Failed(ErrorCode.FENCED_INSTANCE_ID, "broken")
        yield

    return patch.object(static_members, "release_instance", broken)


def let_an_older_process_replace_the_newer_one() -> AbstractContextManager[Any]:
    """A process with a member id of its own replaces whoever has its instance id."""
    release = static_members.release_instance

    def broken(context: Context, member: Member, request: Request, *, is_new: bool) -> Any:
        return (yield from release(context, member, request, is_new=True))

    return patch.object(static_members, "release_instance", broken)


def let_the_older_process_have_its_instance_id_back() -> AbstractContextManager[Any]:
    """The broker's word for an older process counts although a newer one takes its instance id over here."""

    def broken(context: Context, member: Member) -> None:
        if member.client.instance_id is not None:
            member.group.static_members[member.client.instance_id] = member.member_id

    return patch.object(static_members, "claim_instance", broken)


def take_a_refusal_for_a_release() -> AbstractContextManager[Any]:
    """A process whose instance id a deposed coordinator does not release is told that another one has it."""
    return patch.object(static_members, "error_mapping", SimpleNamespace(NO_COORDINATOR=frozenset()))
