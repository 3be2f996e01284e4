"""Takes a worker one step towards its target: give up first, then get what nobody holds (KIP-848, "Reconciliation").

STABLE, UNRELEASED --something to give up--> UNREVOKED --the worker says it runs none of it--> the target's epoch
the target's epoch: STABLE if it has all of its part, else UNRELEASED, until others have given up the rest
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from coordinator.connect_groups.group import Part
from coordinator.connect_groups.member import ConnectMember, MemberState
from coordinator.connect_groups.work import Work, WorkSet


def reconciled(
    member: ConnectMember,
    epoch: int,
    part: Part,
    owners: Mapping[Work, AbstractSet[str]],
    owned: WorkSet | None,
) -> ConnectMember:
    """Return the worker after its next step; the same worker if there is none.

    ``epoch`` and ``part`` are the target's; ``owners`` says who holds what; ``owned`` is what the worker says that it
    runs, None if it says nothing.
    """
    if member.state is MemberState.UNREVOKED:
        if owned is None or owned & member.pending_revocation:
            return member
        member = member.replace(state=MemberState.STABLE, pending_revocation=frozenset())
    elif member.state is MemberState.STABLE and member.member_epoch == epoch:
        return member
    kept = member.assigned & part.works
    revoked = member.assigned - part.works
    if revoked and (owned is None or owned & revoked):
        return member.replace(state=MemberState.UNREVOKED, assigned=kept, pending_revocation=revoked)
    missing = part.works - kept
    alone = frozenset({member.member_id})
    free = frozenset(work for work in missing if owners.get(work, alone) <= alone)
    return member.replace(
        state=MemberState.STABLE if free == missing else MemberState.UNRELEASED,
        assigned=kept | free,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch
        if member.member_epoch != epoch
        else member.previous_member_epoch,
        details=part.details,
    )
