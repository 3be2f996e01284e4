"""How a classic client's generation comes from the member epoch, which generation a call may have (else
ILLEGAL_GENERATION), and whether a commit with an older one counts.

A classic client gets its generation with each JoinGroup response and puts it into every later call. A member of the new
protocol has a member epoch instead, which moves with the broker's heartbeat responses (KIP-848). The mapping:

* A JoinGroup is answered with the member epoch of that moment as the generation (:func:`give`). While the epoch moves
  on, the client keeps that generation until it joins again.
* A Heartbeat or SyncGroup has to have the current generation (:func:`is_current`). A commit may also have an older one
  while the client may not have heard the newest JoinGroup response (:func:`may_commit`). Any other generation is
  refused with ILLEGAL_GENERATION, and a client without membership with UNKNOWN_MEMBER_ID (:func:`why_refused`).
* The generation of a member that another process served is unknown here. It was a member epoch of the same membership,
  so what the client's calls carry counts up to the broker's epoch (:func:`adopt`, :func:`learn`); a newer one is of
  another membership (:func:`is_of_another_membership`). With a member log it may be known (:func:`resume`).
* A call shows by its generation that another process has answered a JoinGroup of its client (:func:`served_elsewhere`).

Everything that changes a member's generation is here. -1 stands for none: the client has no membership that it was told
of.
"""

from protocol_codecs import ApiKey, ErrorCode
from translation.actions import Request
from translation.members.member import Member
from translation.members.member_state import MemberState

NONE = -1

_COMMITS = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})


def in_request(request: Request) -> int:
    """The generation that a Heartbeat, SyncGroup or commit carries."""
    match request.api_key:
        case ApiKey.HEARTBEAT | ApiKey.SYNC_GROUP:
            generation: int = request.message.generation_id
        case ApiKey.OFFSET_COMMIT | ApiKey.TXN_OFFSET_COMMIT:
            generation = request.message.generation_id_or_member_epoch
        case _:
            raise AssertionError(request.api_key)
    return generation


# -- what changes it ---------------------------------------------------------------------------------------------------


def give(member: Member) -> None:
    """Make the member epoch of this moment the client's generation, which the JoinGroup response tells it."""
    if member.state is not MemberState.COMPLETING_REBALANCE:
        # Else the client may not have heard the answer before this one, and has the generation before that.
        member.previous_generation = member.generation
    member.generation = member.member_epoch


def adopt(member: Member, request: Request, broker_epoch: int) -> None:
    """Take over a member at the broker's epoch, with the generation that its client's call carries.

    A generation was a member epoch, so one above the broker's is none that the client can have.
    """
    member.member_epoch = broker_epoch
    member.generation = min(in_request(request), broker_epoch)


def resume(member: Member, generation: int, member_epoch: int) -> None:
    """Go on with a member whose generation and epoch are known, though it was served elsewhere."""
    member.generation, member.previous_generation = generation, NONE
    member.member_epoch = member_epoch


def learn(member: Member, generation: int) -> None:
    """Take the generation of a later call of an adopted member, if it is newer; a delayed call has an older one."""
    if member.adopted and member.generation < generation <= member.member_epoch:
        member.generation = generation


def forget(member: Member) -> None:
    """The membership has ended: there is neither a generation nor an epoch."""
    member.generation = member.previous_generation = NONE
    member.member_epoch = 0


# -- what it says ------------------------------------------------------------------------------------------------------


def why_refused(member: Member, request: Request) -> ErrorCode:
    """The error with which a Heartbeat, SyncGroup or commit is refused for its generation; NONE if that counts.

    UNKNOWN_MEMBER_ID is FENCED_INSTANCE_ID if a newer member has the client's instance id
    (:func:`translation.membership.static_members.membership_error`).
    """
    if member.generation < 0:
        return ErrorCode.UNKNOWN_MEMBER_ID
    carried = in_request(request)
    counts = may_commit(member, carried) if request.api_key in _COMMITS else is_current(member, carried)
    return ErrorCode.NONE if counts else ErrorCode.ILLEGAL_GENERATION


def is_current(member: Member, generation: int) -> bool:
    """Whether a call has the generation of the client's last JoinGroup response."""
    return generation == member.generation


def may_commit(member: Member, generation: int) -> bool:
    """Whether a commit with this generation counts: the current one, or until SyncGroup one from before.

    Of several JoinGroups without a SyncGroup the client may have heard the answer to any, or to none.
    """
    if generation == member.generation:
        return True
    return 0 <= oldest(member) <= generation < member.generation


def oldest(member: Member) -> int:
    """The oldest generation that the client may still have; NONE without a membership.

    The current one, but until SyncGroup the client may not have heard of it.
    """
    if member.state is MemberState.COMPLETING_REBALANCE and member.previous_generation >= 0:
        return member.previous_generation
    return member.generation


def served_elsewhere(member: Member, generation: int, *, sole_process: bool) -> bool:
    """Whether another process may have served this client since it joined here.

    Its generation is newer than the one known here, or its connection was closed meanwhile: the broker may have
    assigned more, and less again, at the same epoch, so that not even the epoch tells.
    """
    if sole_process or generation < member.generation:
        return False  # an older generation is an older one, wherever the newer one came from
    return generation > member.generation or member.may_have_moved


def is_of_another_membership(member: Member, generation: int, broker_epoch: int) -> bool:
    """Whether a generation that is newer than the one known here is none that this membership has had at all."""
    return member.joined and generation > member.generation and generation > broker_epoch
