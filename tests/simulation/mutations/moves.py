"""Mutations of the move of a live group to the new protocol and back."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from translation.actions import Request
from translation.apis import join_group
from translation.conversion import classic_join, stand_in
from translation.engine.member_lookup import Described, Found
from translation.engine.registry import Registry
from translation.joining import join_preflight
from translation.members.member import Member
from translation.membership import member_id_required
from translation.moving import downgrade
from translation.settings import TranslatorSettings


def convert_in_the_middle_of_a_cooperative_rebalance() -> AbstractContextManager[Any]:
    """A classic group is converted while members still have partitions to give up."""
    return patch.object(TranslatorSettings, "revocation_grace_s", new=-math.inf)


def leave_last_while_others_have_to_give_up() -> AbstractContextManager[Any]:
    """The last member of the new protocol goes back while others have partitions to give up."""
    return patch.object(downgrade, "has_to_wait_for_others", _nobody_has_to_wait)


def leave_by_itself_while_others_have_to_give_up() -> AbstractContextManager[Any]:
    """The client of the last member of the new protocol leaves while others have partitions to give up."""
    return patch.object(stand_in, "would_leave_others_behind", _nobody_has_to_wait)


def keep_an_id_that_an_older_join_group_has() -> AbstractContextManager[Any]:
    """A client that lost patience with a relayed JoinGroup joins the new protocol under the same member id."""
    return patch.object(member_id_required, "older_join_may_arrive", lambda *_: False)


def keep_an_id_that_another_process_may_be_ending() -> AbstractContextManager[Any]:
    """A classic member that was elsewhere before keeps its id, and a late LeaveGroup from there ends what it begins."""
    return patch.object(member_id_required, "may_be_left_again", lambda *_: False)


def _nobody_has_to_wait(*_: Any) -> Any:
    yield from ()
    return False


def believe_that_a_group_is_neither_kind() -> AbstractContextManager[Any]:
    """The answer that a group is no consumer group counts although the group may have been converted since."""
    look = join_preflight.JoinPreflight._lookup_member
    first: dict[tuple[int, int], Found] = {}

    def broken(self: Any, member: Member, request: Request, *rest: Any, **named: Any) -> Any:
        asked = id(self), request.id
        if asked not in first or first[asked][0] is not Described.CLASSIC_GROUP:
            first[asked] = yield from look(self, member, request, *rest, **named)
        return first[asked]

    return patch.object(join_preflight.JoinPreflight, "_lookup_member", broken)


def believe_what_was_said_before_the_last_member_left() -> AbstractContextManager[Any]:
    """The answer that a group is a consumer group counts although its last member of the new protocol has left."""
    return patch.object(join_preflight, "_may_have_lost_its_last", lambda *_: False)


def take_a_group_that_was_left_for_a_consumer_group() -> AbstractContextManager[Any]:
    """The last member of the new protocol leaves, and the group is converted again in the rebalance that follows."""
    return patch.object(join_preflight, "has_to_wait_for_others", _nobody_has_to_wait)


def forget_a_group_by_its_name() -> AbstractContextManager[Any]:
    """A procedure that holds an older record of a group makes the process forget the newer one."""
    drop = Registry.drop_group_if_empty

    def broken(self: Registry, group: Any) -> None:
        newer = self.groups.get(group.group_id)
        if newer is not None:
            self.groups[group.group_id] = group
            drop(self, group)
            if group.group_id in self.groups:
                self.groups[group.group_id] = newer

    return patch.object(Registry, "drop_group_if_empty", broken)


def forget_a_group_that_gives_up_partitions() -> AbstractContextManager[Any]:
    """A group whose conversion waits for partitions to be given up is forgotten when no member of it is left here."""
    drop = Registry.drop_group_if_empty

    def broken(self: Registry, group: Any) -> None:
        before, group.migration._grace_until = group.migration._grace_until, math.inf
        drop(self, group)
        group.migration._grace_until = before

    return patch.object(Registry, "drop_group_if_empty", broken)


def join_a_classic_group_for_a_client_that_has_gone() -> AbstractContextManager[Any]:
    """A classic JoinGroup that waited goes to the broker although its client has hung up."""
    return patch.object(classic_join, "_client_is_gone", lambda *_: False)


def move_a_classic_member_with_partitions() -> AbstractContextManager[Any]:
    """A classic member with partitions is converted because its client was told to move once before."""
    return patch.object(
        join_preflight,
        "_completes_a_move",
        lambda old_classic_membership, *, owns_partitions: old_classic_membership is not None,
    )


@contextmanager
def leave_a_group_alone_for_ever() -> Iterator[None]:
    """A group that somebody has not left in time, when all were told to, is not tried again."""
    with (
        patch.object(join_preflight, "passthrough_backoff_s", lambda *_: math.inf),
        patch.object(join_group, "passthrough_backoff_s", lambda *_: math.inf),
    ):
        yield
