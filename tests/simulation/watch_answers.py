"""Invariant 6: clients are told to rejoin, or that their membership is over, only with a cause.

Also, an API is answered only with errors that its old clients survive.
"""

from typing import TYPE_CHECKING, Any

from protocol_codecs import ApiKey, ErrorCode
from tests.simulation.standing import LEFT_BEHIND, MEMBERSHIP_IS_OVER, Standing
from tests.simulation.violation import Violation
from tests.simulation.wire import Ask, codes_in, generation_in

if TYPE_CHECKING:
    from tests.simulation.proxy_process import ProxyProcess
    from tests.simulation.watch import Watch

_E = ErrorCode
_TRANSIENT = frozenset({_E.NOT_COORDINATOR, _E.COORDINATOR_NOT_AVAILABLE})

_ALLOWED: dict[int, frozenset[ErrorCode]] = {
    ApiKey.HEARTBEAT: MEMBERSHIP_IS_OVER | _TRANSIENT | {_E.NONE, _E.REBALANCE_IN_PROGRESS},
    ApiKey.SYNC_GROUP: MEMBERSHIP_IS_OVER | _TRANSIENT | {_E.NONE, _E.REBALANCE_IN_PROGRESS},
    ApiKey.JOIN_GROUP: _TRANSIENT
    | {_E.NONE, _E.MEMBER_ID_REQUIRED, _E.FENCED_INSTANCE_ID, _E.COORDINATOR_LOAD_IN_PROGRESS},
    ApiKey.OFFSET_COMMIT: MEMBERSHIP_IS_OVER
    | _TRANSIENT
    | {_E.NONE, _E.COORDINATOR_LOAD_IN_PROGRESS, _E.UNKNOWN_TOPIC_OR_PARTITION, _E.REBALANCE_IN_PROGRESS},
    ApiKey.LEAVE_GROUP: frozenset(_E),
    ApiKey.OFFSET_FETCH: frozenset(_E),
}
"""The error codes that each API may be answered with. Every other one is fatal in some old client."""

CROSSED = "commits that crossed the answer to their client's JoinGroup"
DEAD_BEFORE_JOINED = "JoinGroups under an id that died before anybody was let in under it"


class AnswerWatch:
    """Judges the error codes in a proxy's own answers."""

    def __init__(self, watch: "Watch") -> None:
        self._watch = watch

    def answered(
        self, process: "ProxyProcess", standing: Standing, ask: Ask, message: Any, *, arrives: bool
    ) -> None:
        """Check a proxy's own answer, and record what it means for the membership."""
        watch = self._watch
        codes = codes_in(message)
        if arrives:
            self._check_codes(process, standing, ask, codes)
        if process.member_log is not None:
            watch.log.answered(process, standing, ask, message, codes)
        match ask.api_key:
            case ApiKey.JOIN_GROUP:
                watch.memberships.join_answered(process, standing, ask, message, arrives=arrives)
            case ApiKey.SYNC_GROUP if message.error_code == ErrorCode.NONE:
                watch.memberships.sync_answered(process, standing)
            case ApiKey.OFFSET_COMMIT:
                watch.commits.answered(standing, ask, codes)
            case ApiKey.LEAVE_GROUP:
                return
        if ErrorCode.REBALANCE_IN_PROGRESS in codes:
            self._told_to_rejoin(process, standing)
        for code in codes & MEMBERSHIP_IS_OVER if arrives else ():
            self._told_it_is_over(process, standing, ask, ErrorCode(code))

    def _crosses_an_answer(self, standing: Standing, ask: Ask, code: ErrorCode) -> bool:
        """Whether a classic group has completed with the client's JoinGroup, and the answer to that is still under way.

        The client commits on another connection meanwhile, and a broker refuses the generation before.
        """
        group = self._watch.broker.classic_group
        return (
            code == ErrorCode.ILLEGAL_GENERATION
            and ask.api_key == ApiKey.OFFSET_COMMIT
            and bool(standing.joins_waiting)
            and group is not None
            and standing.member_id in group.members
            and group.generation > standing.generation
        )

    def _is_left_behind(self, standing: Standing, code: ErrorCode) -> bool:
        is_so = code == ErrorCode.ILLEGAL_GENERATION and self._watch.is_left_behind(standing)
        if is_so:
            self._watch.count(LEFT_BEHIND)
        return is_so

    def _may_not_begin(self, process: "ProxyProcess", member_id: str) -> bool:
        """Whether a replica may not begin under an id: the broker has no such member of the new protocol (any more)."""
        if process.member_log is None:
            return False
        group = self._watch.broker.group
        member = None if group is None else group.members.get(member_id)
        return member is None or member.uses_classic_protocol

    def _begins_elsewhere(self, process: "ProxyProcess", standing: Standing, member_id: str) -> bool:
        """Whether another replica begins under the id at this moment, and nobody was let in under it yet.

        When the broker was asked for the member, it may have had none. Its client works on nothing under this id.
        """
        begins = standing.joins_as == member_id not in self._watch.client_of
        return begins and self._watch.log.has_begun_elsewhere(process, member_id)

    def _died_before_it_was_used(self, process: "ProxyProcess", member_id: str) -> bool:
        """Whether a replica has read that an id is dead under which no client was ever let in.

        Of an id under which one was let in, ``expiring`` ends the contract. Here it is as at a broker that has given an
        id out, and waited in vain for the JoinGroup with it: UNKNOWN_MEMBER_ID, and the client, which works on nothing
        under this id, begins anew. Its replica may not have been able to write that it is there.
        """
        return member_id not in self._watch.client_of and self._watch.log.is_dead(process, member_id)

    def _check_codes(self, process: "ProxyProcess", standing: Standing, ask: Ask, codes: set[int]) -> None:
        for code in codes:
            ended = code == ErrorCode.UNKNOWN_MEMBER_ID and ask.api_key == ApiKey.JOIN_GROUP
            if ended and (
                standing.excuse() is not None
                or self._may_not_begin(process, ask.message.member_id)
                or self._begins_elsewhere(process, standing, ask.message.member_id)
            ):
                continue  # it left on another connection while its JoinGroup waited, or has ended at the broker
            if ended and self._died_before_it_was_used(process, ask.message.member_id):
                self._watch.count(DEAD_BEFORE_JOINED)
                continue
            if code not in _ALLOWED[ask.api_key]:
                name = f"{ApiKey(ask.api_key).name} with {ErrorCode(code).name}"
                raise Violation(6, f"{standing.client} is answered {name}, which old clients do not survive")

    def _told_to_rejoin(self, process: "ProxyProcess", standing: Standing) -> None:
        """Start the client's rebalance timeout, and check that there is a cause to rejoin."""
        self._watch.count("rejoins")
        if standing.asked_to_rejoin_ms is None:
            standing.asked_to_rejoin_ms = self._watch.kernel.now_ms
        adopted = standing.joined_at != (process.name, process.incarnation)
        changed = any(given != standing.handed for given in standing.given)
        withheld = not standing.claims <= standing.handed
        # What a JoinGroup did whose answer nobody heard can only be undone by another one.
        known = standing.synced and not standing.abandoned_join
        moves = _policy_moves(process, standing)
        if moves:
            self._watch.count("clients asked to rejoin because the policy moves them")
        cause = adopted or changed or withheld or standing.moved_late or moves
        if not cause and known and standing.excuse() is None:
            raise Violation(6, f"{standing.client} is made to rejoin although nothing of it changed")

    def _told_it_is_over(
        self, process: "ProxyProcess", standing: Standing, ask: Ask, code: ErrorCode
    ) -> None:
        if ask.message.member_id != standing.member_id or generation_in(ask.message) != standing.generation:
            return  # of an older membership or generation
        excuse = standing.excuse()
        if code == ErrorCode.UNKNOWN_MEMBER_ID and _policy_moves(process, standing):
            # It goes on being a member until it has given up everything and joins anew.
            self._watch.count("clients moved between the protocols")
            return
        if excuse is None and _is_by_its_own_join_group(standing, ask, code):
            self._watch.count("clients fenced by their own JoinGroup")
            excuse = "its own JoinGroup"
        if excuse is None and self._crosses_an_answer(standing, ask, code):
            self._watch.count(CROSSED)
            excuse = "its own JoinGroup"
        if excuse is None and self._is_left_behind(standing, code):
            excuse = "its group went on without it"
        if excuse is None:
            raise Violation(6, f"{standing.client} is told {code.name} while it is within its contract")
        standing.end(f"it was told {code.name}")


def _is_by_its_own_join_group(standing: Standing, ask: Ask, code: ErrorCode) -> bool:
    """Whether a client is told what another JoinGroup of its own has done, as a broker would tell it.

    One that was under way for long on a connection that the client gave up makes a generation of which it knows
    nothing. One without a member id takes the instance id over, also from a commit that is still on its way, and from a
    newer one that has overtaken it on the way to the broker.
    """
    if (
        standing.displaced
        and standing.displaced == ask.message.member_id
        and code != ErrorCode.ILLEGAL_GENERATION
    ):
        return True
    if code == ErrorCode.ILLEGAL_GENERATION:
        return standing.abandoned_join
    later = (number for number in standing.taking_over if number > ask.number)
    return code == ErrorCode.FENCED_INSTANCE_ID and ask.api_key == ApiKey.OFFSET_COMMIT and any(later)


def _policy_moves(process: "ProxyProcess", standing: Standing) -> bool:
    """Whether the policy is a reason to tell a client to join anew."""
    return standing.classic is process.translates or process.policy_read_ms >= standing.answered_ms
