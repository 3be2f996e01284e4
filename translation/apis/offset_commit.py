"""OffsetCommit and TxnOffsetCommit: go to the broker with the member epoch in the place of the client's generation,
once more after STALE_MEMBER_EPOCH.

A client keeps the generation of its last JoinGroup while the broker's epoch moves on. Its commit is accepted if its
generation counts (:func:`translation.members.generation.may_commit`), and goes out with the current epoch. With an
older generation it may only name partitions that the member still has: what the client's JoinGroup gave up may have
another owner by now, whose offsets it would set back.

A client may send a commit without waiting for the one before. They go to the broker one behind the other, and beside
the proxy's own heartbeats; all other calls of the member wait for the answers. Those of one connection keep their
order, also if the epoch moves: a commit waits as long as one with an older epoch is under way, and what the broker
refuses for its epoch is sent again before those that wait.
"""

from typing import Any

from protocol_codecs import ApiKey, ErrorCode
from translation.actions import EventKind, Request
from translation.apis.commit_elsewhere import CommitsElsewhere
from translation.apis.commit_messages import STALE, for_a_member, refused, send_commit, translated
from translation.engine.context import Context
from translation.engine.member_lookup import Described
from translation.joining.adoption import Adoption
from translation.members import generation, session_timeout
from translation.members.environment import Environment
from translation.members.member import Member
from translation.members.procedure import Procedure, Turn
from translation.membership import static_members
from translation.passthrough.commits import codes_of
from translation.upstream.consumer_group_heartbeat import UpstreamHeartbeats


class OffsetCommits:
    """Translates OffsetCommits and TxnOffsetCommits."""

    def __init__(self, context: Context) -> None:
        self._environment: Environment = context
        self._registry = context.registry
        self._member_log = context.member_log
        self._events = context.events
        self._connections = context.connections
        self._lookup = context.lookup
        self._topic_names = context.topic_names
        self._commits_elsewhere = CommitsElsewhere(context)
        self._upstream_heartbeats = UpstreamHeartbeats(context)
        self._adoption = Adoption(context)

    def commit(self, member: Member, request: Request) -> Procedure[None]:
        """Handle an OffsetCommit or a TxnOffsetCommit that names a member."""
        if self._member_log.log is not None:
            self._withdraw_end(member)
        if not self._goes_beside(member, request):
            yield Turn()
        if self._member_log.log is not None and not self._is_served_here(member, request):
            yield from self._commits_elsewhere.commit_elsewhere(member, request)
            return
        transactional = request.api_key == ApiKey.TXN_OFFSET_COMMIT
        message = request.message
        carried = generation.in_request(request)
        generation.learn(member, carried)
        if not transactional:  # a transactional one comes from the producer's connection
            self._connections.record_call(member, request.connection, carried)
        if member.generation >= 0:
            session_timeout.renew(member, self._environment.now)
        code = yield from self._check(member, request)
        if code is None:
            return
        if code != ErrorCode.NONE:
            self._connections.answer(request, refused(request, code))
            return
        if member.adopted and not self._connections.is_waiting(request):
            return  # its client has gone, and may have given up through another process what it commits here
        version, message = for_a_member(request)
        epoch = member.member_epoch
        response = yield from send_commit(epoch, request.api_key, version, message, beside=True)
        if codes_of(response) & STALE:
            response = yield from self._try_newest_epoch(member, request, epoch, response)
            if response is None:
                return
        if ErrorCode.UNKNOWN_MEMBER_ID in codes_of(response) and (yield from self._replaced(member, request)):
            response = refused(request, ErrorCode.FENCED_INSTANCE_ID)
        self._connections.answer(request, translated(response))

    def _goes_beside(self, member: Member, request: Request) -> bool:
        """Whether a commit may go to the broker beside others, as nearly all may.

        Not if the broker has to be asked about the member first, nor if the others carry an older epoch: one of them
        may have to be sent again before this one.
        """
        if self._member_log.log is not None and not self._is_served_here(member, request):
            return False
        if _is_served_elsewhere(self._environment, member, request):
            return False
        sent = member.queue.sent_beside
        return sent is None or sent.message.generation_id_or_member_epoch == member.member_epoch

    def _try_newest_epoch(self, member: Member, request: Request, epoch: int, stale: Any) -> Procedure[Any]:
        """Send a commit once more at the newest epoch; return the broker's response, ``stale`` if there is no newer
        one.

        The epoch has moved since the commit was sent at ``epoch``: by a heartbeat of the proxy, which is known here, or
        in an answer that never arrived. Nor need the client's generation count any more, if it has joined again
        meanwhile. Returns None if that was answered, or forwarded because the broker itself serves the client by now.
        """
        yield Turn(again=True)
        if self._member_log.log is not None:
            yield from self._commits_elsewhere.commit_elsewhere(member, request)
            return None
        version, message = for_a_member(request)
        response = stale
        if self._connections.is_waiting(request) or not _is_served_elsewhere(
            self._environment, member, request
        ):
            code = yield from self._check(member, request)
            if code != ErrorCode.NONE:
                return None if code is None else refused(request, code)
            if member.member_epoch != epoch:
                response = yield from send_commit(member.member_epoch, request.api_key, version, message)
                if not codes_of(response) & STALE:
                    return response
        heartbeat = yield from self._upstream_heartbeats.keepalive_heartbeat(member)
        known = heartbeat.error_code == ErrorCode.NONE
        if heartbeat.error_code == ErrorCode.FENCED_MEMBER_EPOCH and self._connections.is_waiting(request):
            # Only a client that is still here may commit at an epoch that another process has moved.
            code = yield from self._adoption.readopt(member, request)
            if code is None:
                return None
            known = code == ErrorCode.NONE
        if not known:
            return response
        return (yield from send_commit(member.member_epoch, request.api_key, version, message))

    def _withdraw_end(self, member: Member) -> None:
        """The client is there, wherever its connection is: the log is not to say any more that its id is dead.

        Its deadlines are looked at again, because nothing is booked while the log is asked.
        """
        if member.joined:
            self._member_log.heard(member, None)
            self._environment.book(member)

    def _is_served_here(self, member: Member, request: Request) -> bool:
        """With a member log, whether the epoch that is known here is the member's, as far as is read."""
        carried = generation.in_request(request)
        return (
            member.joined
            and self._member_log.may_speak_for(member)
            and not generation.served_elsewhere(member, carried, sole_process=False)
        )

    def _replaced(self, member: Member, request: Request) -> Procedure[bool]:
        """Ask the broker whether another member has the instance id: it does not answer a commit so, and the old
        process must not join again."""
        instance_id = request.message.group_instance_id
        if not instance_id or self._environment.settings.sole_process:
            return False
        yield Turn(again=True)
        described, _ = yield from self._lookup.member(
            member.group.group_id, member.member_id, request.connection, instance_id=instance_id
        )
        return described is Described.REPLACED

    def _check(self, member: Member, request: Request) -> Procedure[ErrorCode | None]:
        """Decide about a commit before it reaches the broker.

        Returns NONE if it goes there, the code with which it is refused, or None if the call has been forwarded.
        """
        carried = generation.in_request(request)
        if _is_served_elsewhere(self._environment, member, request):
            code = yield from self._adoption.readopt(member, request)
            if code != ErrorCode.NONE:
                return code
        code = generation.why_refused(member, request)
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            return static_members.membership_error(self._environment, self._registry, member, request.message)
        if code == ErrorCode.ILLEGAL_GENERATION and self._may_be_newest_elsewhere(member):
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if code == ErrorCode.NONE and not generation.is_current(member, carried):
            code = self._check_partitions(member, request)
        if code != ErrorCode.NONE:
            reason = f"commit with generation {carried}"
            self._events.emit(EventKind.CALL_REFUSED, member, reason=reason)
        return code

    def _may_be_newest_elsewhere(self, member: Member) -> bool:
        """Whether an older generation may be the client's newest: another replica has answered it, of which nothing is
        read yet, and an answer of this one has found nobody.
        """
        return self._member_log.log is not None and not self._member_log.knows_who_serves(member)

    def _check_partitions(self, member: Member, request: Request) -> ErrorCode:
        """NONE if a commit with an older generation names only partitions that the member has, else
        REBALANCE_IN_PROGRESS.

        Clients try again after that code, with the generation of their JoinGroup. A classic coordinator takes such a
        commit while the rebalance lasts, but there nobody else gets the partitions before it is over.
        """
        held = member.partitions.possibly_owned | member.partitions.broker_assignment
        by_topic_name = {(self._topic_names.get(topic_id), index) for topic_id, index in held}
        for topic in request.message.topics:
            for partition in topic.partitions:
                index = partition.partition_index
                if (topic.name, index) not in by_topic_name and (topic.topic_id, index) not in held:
                    return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE


def _is_served_elsewhere(environment: Environment, member: Member, request: Request) -> bool:
    carried, sole_process = generation.in_request(request), environment.settings.sole_process
    return generation.served_elsewhere(member, carried, sole_process=sole_process)
