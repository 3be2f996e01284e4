"""Which assignor a group of workers uses (KIP-848, "Assignment Process").

The KIP: one that all members support, "respecting the precedence defined by the members". Where their orders differ it
says no more; here each votes for the first of its assignors that all support, as classic groups do, and the name
decides a tie. No assignor of the broker's exists for Connect.
"""

from collections import Counter
from collections.abc import Iterable

from coordinator.connect_groups.member import ConnectMember


def chosen_assignor(members: Iterable[ConnectMember]) -> str | None:
    """Return the assignor of a group with these workers; None if no assignor is everybody's, or none reads all."""
    members = list(members)
    if not members:
        return None
    names = set.intersection(*({assignor.name for assignor in member.assignors} for member in members))
    usable = {name for name in names if _is_read_by_all(name, members)}
    if not usable:
        return None
    votes = Counter(
        next(assignor.name for assignor in member.assignors if assignor.name in usable) for member in members
    )
    return min(votes, key=lambda name: (-votes[name], name))


def _is_read_by_all(name: str, members: list[ConnectMember]) -> bool:
    """Whether whoever computes reads the metadata of all."""
    declared = [assignor for member in members if (assignor := member.assignor(name)) is not None]
    versions = {assignor.version for assignor in declared}
    return all(assignor.reads(version) for assignor in declared for version in (min(versions), max(versions)))
