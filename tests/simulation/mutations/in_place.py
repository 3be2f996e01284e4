"""Mutations of the conversion in place and of the way back: each leaves out one of their conditions."""

from collections.abc import Generator
from contextlib import AbstractContextManager, suppress
from typing import Any
from unittest.mock import patch

import msgspec

from protocol_codecs import ErrorCode
from protocol_codecs.messages.consumer_protocol import decode_subscription, encode_subscription
from protocol_codecs.messages.heartbeat import HeartbeatResponse
from translation.actions import Request
from translation.conversion import helper
from translation.engine.classic_members import ClassicMember, ClassicMembers
from translation.engine.context import replaced
from translation.members.procedure import Procedure
from translation.moving import held_return, in_place, return_in_place, upgrade
from translation.partitions import NONE
from translation.upstream import consumer_group_heartbeat, metadata_lookup

# -- the way in --------------------------------------------------------------------------------------------------------


def convert_without_what_it_owns() -> AbstractContextManager[Any]:
    """A member is converted in place with an empty owned list, as its eager client named it in the JoinGroup."""

    heartbeat = in_place.InPlaceConversion._heartbeat

    def broken(self: Any, member: Any, known: Any, epoch: int, topics: Any, _owned: Any) -> Procedure[None]:
        yield from heartbeat(self, member, known, epoch, topics, NONE)

    return patch.object(in_place.InPlaceConversion, "_heartbeat", broken)


def convert_at_epoch_0() -> AbstractContextManager[Any]:
    """A member is converted in place at epoch 0, as one that joins, and not with its generation as epoch."""
    heartbeat = in_place.InPlaceConversion._heartbeat

    def broken(self: Any, member: Any, known: Any, _epoch: int, topics: Any, owned: Any) -> Procedure[None]:
        yield from heartbeat(self, member, known, 0, topics, owned)

    return patch.object(in_place.InPlaceConversion, "_heartbeat", broken)


def convert_whatever_the_heartbeat_was_answered() -> AbstractContextManager[Any]:
    """A member is converted in place although the broker has not accepted the Heartbeat before."""
    convert = in_place.InPlaceConversion.convert_in_place

    def broken(*arguments: Any, **named: Any) -> Procedure[ErrorCode | None]:
        converting = convert(*arguments, **named)
        yield next(converting)
        first = converting.send(HeartbeatResponse())
        return (yield from _from(first, converting))

    return patch.object(in_place.InPlaceConversion, "convert_in_place", broken)


def _from(item: Any, rest: Generator[Any, Any, Any]) -> Procedure[Any]:
    """Go on with a procedure that has yielded an item."""
    try:
        while True:
            item = rest.send((yield item))
    except StopIteration as ended:
        return ended.value


def convert_for_whoever_names_the_member() -> AbstractContextManager[Any]:
    """A member is converted in place at the Heartbeat of another client, which names its id."""
    return patch.object(ClassicMember, "is_same_client", lambda *_: True)


def convert_whatever_the_policy_says_by_now() -> AbstractContextManager[Any]:
    """A member is converted in place although its policy or a gate has changed while the broker was asked."""
    return patch.object(in_place.InPlaceConversion, "_is_to_be_converted", lambda *_: True)


def convert_with_a_topic_outside_its_subscription() -> AbstractContextManager[Any]:
    """A member is converted in place with partitions of a topic that it does not subscribe to."""
    return patch.object(in_place, "_ensure_subscribed", lambda *_: None)


def convert_with_a_topic_that_it_may_not_describe() -> AbstractContextManager[Any]:
    """The heartbeat that converts names a topic that the principal may not describe, for which brokers refuse it."""

    def broken(*about: Any) -> Procedure[Any]:
        ids, _ = yield from metadata_lookup.lookup_topics(*about)
        return ids, frozenset()

    return patch.object(in_place, "lookup_topics", broken)


def convert_at_another_epoch_of_the_helper() -> AbstractContextManager[Any]:
    """A member is converted in place although the epoch that its helper got is not its generation."""
    convert = in_place.InPlaceConversion._convert_group

    def broken(*arguments: Any) -> Procedure[None]:
        with suppress(in_place._NotConverted):
            yield from convert(*arguments)

    return patch.object(in_place.InPlaceConversion, "_convert_group", broken)


def rejoin_without_what_it_owns() -> AbstractContextManager[Any]:
    """The JoinGroup that stops the timers of the classic membership names no owned partitions."""
    return patch.object(
        in_place, "replaced", lambda subscription, **_: replaced(subscription, owned_partitions=())
    )


def convert_a_member_that_the_broker_has_otherwise() -> AbstractContextManager[Any]:
    """A member is converted in place although the broker describes another epoch or assignment."""
    return patch.object(in_place, "_is_described", lambda *_: True)


def convert_while_a_commit_is_under_way() -> AbstractContextManager[Any]:
    """A member is converted in place before its commit on another connection is answered, which is refused then."""

    def broken(*_: object) -> Procedure[None]:
        yield from ()

    return patch.object(in_place.InPlaceConversion, "_drain_commits", broken)


def vote_before_the_last_is_converted() -> AbstractContextManager[Any]:
    """A converted member votes for an assignor while classic members are left, which have to rejoin for it."""
    return patch.object(
        consumer_group_heartbeat, "changed_assignor", lambda member: member.broker.effective_assignor
    )


def have_eager_clients_lose_their_partitions() -> AbstractContextManager[Any]:
    """The clients of a group that has to be empty are told that they are no members, however eager they are."""
    return patch.object(upgrade, "is_cooperative", lambda _: True)


def forget_a_rebalance_that_was_announced() -> AbstractContextManager[Any]:
    """A member is converted in place although a timer of its classic membership may run, which removes it."""
    return patch.object(ClassicMembers, "rebalance_announced", lambda *_: None)


def leave_a_partition_without_an_owner() -> AbstractContextManager[Any]:
    """A group is converted in which a partition has no owner, and its epoch does not move until the helper leaves."""

    def broken(*_: object) -> Procedure[bool]:
        yield from ()
        return True

    return patch.object(helper, "has_every_partition", broken)


def repeat_a_conversion_of_before() -> AbstractContextManager[Any]:
    """A conversion is repeated with what one of several processes knows, though the client may have got more since."""
    return patch.object(in_place.InPlaceConversion, "_may_know_less", lambda *_: False)


# -- the way back ------------------------------------------------------------------------------------------------------


def go_back_without_what_it_owns() -> AbstractContextManager[Any]:
    """The JoinGroup by which a member goes back reaches the broker with an empty owned list."""

    def broken(request: Request) -> Request:
        protocols = []
        for protocol in request.message.protocols:
            version, subscription = decode_subscription(protocol.metadata)
            empty = encode_subscription(replaced(subscription, owned_partitions=()), version)
            protocols.append(replaced(protocol, metadata=empty))
        message = replaced(request.message, protocols=tuple(protocols))
        return msgspec.structs.replace(request, message=message)

    return patch.object(return_in_place, "readable", broken)


def leave_before_all_have_the_group_epoch() -> AbstractContextManager[Any]:
    """On the way back the helper leaves while a member has not reached the group epoch."""
    return patch.object(helper.Helpers, "_is_back", lambda self, conversion, described: described is not None)


def answer_before_the_group_is_a_classic_one() -> AbstractContextManager[Any]:
    """A client that goes back is answered at once, and has to rejoin once more."""
    return patch.object(held_return.HeldReturn, "_may_become_classic", lambda *_: False)


def commit_with_the_generation_from_before() -> AbstractContextManager[Any]:
    """While its JoinGroup is held, a client's commit goes to the broker as it is."""
    return patch.object(held_return, "with_generation_of_broker", lambda *_: None)


def leave_a_consumer_group_of_classic_members() -> AbstractContextManager[Any]:
    """The process that was to bring the helper on the way back has ended, and no other brings one."""
    return patch.object(helper, "_lacks_helper", lambda *_: False)


def go_back_as_the_last_without_a_helper() -> AbstractContextManager[Any]:
    """The last member of the new protocol goes back, and nobody makes the group a classic one."""

    def broken(*_: object) -> Procedure[ErrorCode]:
        yield from ()
        return ErrorCode.NONE

    return patch.object(return_in_place.ReturnInPlace, "_ensure_helper", broken)
