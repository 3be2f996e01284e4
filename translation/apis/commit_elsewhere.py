"""Commits at a replica that does not serve their member: they go to the broker with the epoch that it describes.

With a member log a commit makes no replica the server of its member: it often comes from a producer's connection, and
the client's own calls go to another replica. So nothing is remembered of it here: no connection, no deadline.

Which generation the client has is known from the log, once a record that was written after its SyncGroup is read, and
from what the client did here before. Until then a commit with an older one, which was held up on its way, counts as if
it came in time.
"""

from protocol_codecs import ErrorCode
from translation.actions import Request
from translation.admission.serving import MemberServing
from translation.apis.commit_messages import STALE, for_a_member, refused, send_commit, translated
from translation.engine.context import Context
from translation.engine.member_lookup import Described
from translation.member_log.records import NO_GENERATION, Kind
from translation.members import generation
from translation.members.member import Member
from translation.members.procedure import Procedure
from translation.passthrough.commits import codes_of

_ATTEMPTS = 2
"""The epoch may move between the description and the commit."""


class CommitsElsewhere:
    """Translates commits of members that other replicas serve."""

    def __init__(self, context: Context) -> None:
        self._member_log = context.member_log
        self._connections = context.connections
        self._lookup = context.lookup
        self._member_serving = MemberServing(context)

    def commit_elsewhere(self, member: Member, request: Request) -> Procedure[None]:
        """Send a commit at the epoch that the broker describes; refuse or relay it if the broker has no such member."""
        record = self._member_log.record(member)
        if record is not None and record.kind.is_dead:
            code = yield from self._member_serving.code_for_dead(request, member.member_id)
            self._connections.answer(request, refused(request, code))
            return
        if record is not None and record.kind is Kind.RELAYED:
            self._connections.forward(request)
            return
        version, message = for_a_member(request)
        for _ in range(_ATTEMPTS):
            described, found = yield from self._lookup.member(
                member.group.group_id,
                member.member_id,
                request.connection,
                instance_id=message.group_instance_id,
            )
            if described in (Described.UNKNOWN, Described.HIDDEN):
                response = refused(request, ErrorCode.UNKNOWN_MEMBER_ID)
            elif described is Described.REPLACED:
                response = refused(request, ErrorCode.FENCED_INSTANCE_ID)
            elif found is None:
                self._connections.forward(request)
                return
            elif not self._may_commit(member, generation.in_request(request), found.member_epoch):
                response = refused(request, ErrorCode.ILLEGAL_GENERATION)
            elif not self._connections.is_waiting(request):
                return  # its client has gone, and may have given up through another process what it commits here
            else:
                response = yield from send_commit(found.member_epoch, request.api_key, version, message)
                if codes_of(response) & STALE:
                    continue
            break
        self._connections.answer(request, translated(response))

    def _may_commit(self, member: Member, carried: int, member_epoch: int) -> bool:
        """Whether a commit counts: its generation is none that its client is known to have left behind.

        It is known from the log, as far as that is read, and from what the client did here before: while the log is
        read again no record says more. A generation above the broker's epoch is of another membership, since when the
        group was deleted.
        """
        record = self._member_log.record(member)
        synced = NO_GENERATION if record is None else record.generation
        known = (known for known in (synced, generation.oldest(member)) if known <= member_epoch)
        return max(known, default=NO_GENERATION) <= carried <= member_epoch
