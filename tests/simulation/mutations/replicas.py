"""Mutations of what a replica does by the member log: whom it serves, whose end it sends, and what it relays."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from protocol_codecs import ErrorCode
from translation.actions import Request
from translation.admission import serving
from translation.apis import commit_elsewhere as commits
from translation.engine import memberships
from translation.engine.member_log_view import MemberLogView
from translation.engine.member_lookup import Described
from translation.joining import adoption
from translation.member_log.outputs import JoinTerms, ServeDecision
from translation.members.member import Member
from translation.members.member_ids import MemberIds
from translation.members.procedure import Procedure
from translation.membership.expiry import Expiry
from translation.routing import log_outputs
from translation.settings import TranslatorSettings
from translation.upstream.leave_epoch import leave


def _nothing(*_: Any) -> Procedure[None]:
    yield from ()


# -- who serves a member ------------------------------------------------------------------------------------------


def go_by_the_rules_of_the_only_process() -> AbstractContextManager[Any]:
    """A replica with a member log goes by the rules of the only process."""
    return patch.object(TranslatorSettings, "sole_process", new=True)


def take_a_used_id_for_a_new_one() -> AbstractContextManager[Any]:
    """An id that this process has issued counts as uncontested for ever, also if the log was lost meanwhile."""
    return patch.object(MemberIds, "is_unused", MemberIds.is_issued)


def claim_ids_that_nobody_has() -> AbstractContextManager[Any]:
    """A member that no record names is claimed without asking the broker whether there is one."""

    def found(*_: Any, **__: Any) -> Procedure[Any]:
        yield from ()
        return Described.MEMBER, None

    settle = serving.MemberServing._settle

    def broken(self: Any, *call: Any) -> Procedure[None]:
        self._lookup = SimpleNamespace(member=found)
        return settle(self, *call)

    return patch.object(serving.MemberServing, "_settle", broken)


def keep_a_connection_that_is_closed() -> AbstractContextManager[Any]:
    """A connection stays confirmed although it is lost, or the broker there coordinates the group no more."""
    return patch.object(MemberLogView, "withdraw_confirmations", lambda *_: None)


def speak_for_members_of_others() -> AbstractContextManager[Any]:
    """An owned list, epoch -1 or epoch 0 goes out also for a member that another replica serves."""
    return patch.object(MemberLogView, "may_speak_for", lambda *_: True)


def begin_under_any_id() -> AbstractContextManager[Any]:
    """Epoch 0 goes out under an id that another process has issued."""
    return patch.object(MemberLogView, "why_not_begin", lambda *_: ErrorCode.NONE)


def tell_a_client_that_was_not_settled_to_join_anew() -> AbstractContextManager[Any]:
    """A client whose call the log does not settle is told that it is no member."""
    refusals = dict.fromkeys(ServeDecision, ErrorCode.UNKNOWN_MEMBER_ID)
    return patch.object(serving, "_REFUSALS", refusals)


def never_give_up_on_a_client() -> AbstractContextManager[Any]:
    """A client whose calls the log never settles is told to try again, also when the broker has ended its member."""
    return patch.object(MemberLogView, "gives_up_on", lambda *_: False)


def tell_whose_member_was_taken_that_it_is_gone() -> AbstractContextManager[Any]:
    """A call that is under way when another replica takes its member is told UNKNOWN_MEMBER_ID."""
    end = memberships.Memberships._end

    def broken(self: Any, member: Member, *args: Any) -> None:
        end(self, member, *args)
        member.taken = False

    return patch.object(memberships.Memberships, "_end", broken)


def adopt_with_timeouts_of_ones_own() -> AbstractContextManager[Any]:
    """A member from another replica has Kafka's default timeouts, not those of its JoinGroup, until it joins."""

    def broken(self: Any, member: Member, found: Any) -> None:
        member.client.session_timeout_ms = JoinTerms().session_timeout_ms
        member.client.rebalance_timeout_ms = JoinTerms().rebalance_timeout_ms
        member.client.subscription = frozenset(found.subscribed_topic_names)

    return patch.object(adoption.Adoption, "_describe_client", broken)


@contextmanager
def keep_a_classic_member_that_another_serves() -> Iterator[None]:
    """What is known of a classic member is used after another replica has served or relayed it."""
    with (
        patch.object(log_outputs, "OtherRecordCounts", type("Never", (), {})),
        patch.object(log_outputs.LogOutputs, "_forget_what_is_older", lambda *_: None),
    ):
        yield


def do_not_write_what_began_under_a_classic_id() -> AbstractContextManager[Any]:
    """A membership that begins under the id of a classic coordinator is not written to the log."""
    return patch.object(MemberLogView, "has_begun", lambda *_: None)


# -- commits --------------------------------------------------------------------------------------------------------


def let_a_commit_take_a_member_over() -> AbstractContextManager[Any]:
    """A replica to which a commit comes becomes the server of its member."""
    commit_elsewhere = commits.CommitsElsewhere.commit_elsewhere

    def broken(self: Any, member: Member, request: Request) -> Procedure[None]:
        self._member_log.log.claim(member.key, request.connection.id, self._member_log._environment.now)
        yield from commit_elsewhere(self, member, request)

    return patch.object(commits.CommitsElsewhere, "commit_elsewhere", broken)


def commit_elsewhere_with_any_generation() -> AbstractContextManager[Any]:
    """A commit at a replica that does not serve its member counts whatever its generation is."""
    return patch.object(commits.CommitsElsewhere, "_may_commit", lambda *_: True)


# -- ends -----------------------------------------------------------------------------------------------------------


def keep_a_silent_client_alive() -> AbstractContextManager[Any]:
    """A client whose deadline has passed is kept alive at the broker while the log is away."""
    return patch.object(MemberLogView, "may_keep_alive", lambda *_: True)


def write_an_end_that_the_broker_has_not_confirmed() -> AbstractContextManager[Any]:
    """`ended` is written when epoch -1 is sent, whatever becomes of it."""

    def broken(self: Any, member: Member) -> Procedure[None]:
        self._member_log.end(member.group.group_id, member.member_id)
        yield from leave(member)

    return patch.object(Expiry, "remove_dead", broken)


def leave_a_dead_member_to_the_broker() -> AbstractContextManager[Any]:
    """Whoever meets a dead id for which epoch -1 may not have gone out does not send it."""
    return patch.object(serving.MemberServing, "_finish_expiry", _nothing)


def go_on_with_calls_of_a_dead_id() -> AbstractContextManager[Any]:
    """A call that is under way when its id becomes dead is answered as if its client were still a member."""
    expired = log_outputs.LogOutputs._expired

    def broken(self: Any, member: Member) -> None:
        with patch.object(Expiry, "forget_expired", lambda *_: None):
            expired(self, member)

    return patch.object(log_outputs.LogOutputs, "_expired", broken)


def leave_the_others_to_their_clients() -> AbstractContextManager[Any]:
    """Members are not heartbeated when the membership of another one ends at another replica."""
    return patch.object(log_outputs.LogOutputs, "_heartbeat_the_others", lambda *_: None)


def tell_an_older_process_that_its_id_is_dead() -> AbstractContextManager[Any]:
    """Under a dead id nobody asks whether a newer process has the instance id, so the older one replaces that."""

    def broken(*_: Any) -> Procedure[ErrorCode]:
        yield from ()
        return ErrorCode.UNKNOWN_MEMBER_ID

    return patch.object(serving.MemberServing, "code_for_dead", broken)


# -- JoinGroups that are relayed ------------------------------------------------------------------------------------


def move_back_without_the_log() -> AbstractContextManager[Any]:
    """Epoch -1 goes out for a client that joins again without the log saying that its id is dead."""
    return patch.object(Expiry, "ensure_dead", _nothing)


def relay_under_any_id() -> AbstractContextManager[Any]:
    """A JoinGroup is relayed at once, whatever the log says of its id."""
    return patch.object(serving.MemberServing, "_relays_at_once", lambda *_: True)


def relay_for_ever() -> AbstractContextManager[Any]:
    """Calls of an id that the log has as a classic member's are relayed, also when it is time to move."""

    def broken(self: Any, request: Request, member_id: str, proceed: Any) -> Procedure[None]:
        yield from ()
        self._connections.forward(request)

    return patch.object(serving.MemberServing, "_relay", broken)
