"""What may serve whole groups itself (``mode: host``): the one seam for experiments. There is none without
``experimental: true``.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from translation.actions import ConnectionId, Request
from translation.member_log.records import MemberKey
from translation.policy.policy import Mode, Rule

RouteAgain: TypeAlias = Callable[[Request], None]
"""Sends a call its way once more, as if it had just come."""


class GroupRouter(Protocol):
    """Serves whole groups. It is made with the translation's context, and acts by its clock, scheduler and answers."""

    def route(self, request: Request, route_again: RouteAgain) -> bool:
        """Take a call that belongs to a group of this router; False if the call goes the way of all others.

        A call that is taken is answered, at once or later, or routed again.
        """
        ...

    def may_take(self, group_id: str) -> bool:
        """Whether :meth:`route` may take a call of this group."""
        ...

    def has_group(self, group_id: str) -> bool:
        """Whether a group is served by a router, of this process or another, whatever the policy says of it; or may be.

        Nobody may become a member of it at the broker without this router.
        """
        ...

    def connection_ended(self, connection_id: ConnectionId) -> None:
        """Forget what waits on a connection that its client, or its broker, has closed."""
        ...

    def record_settled(self, key: MemberKey) -> None:
        """Note that a record of the member log was read back, or that it counts for nothing."""
        ...

    def next_deadline(self) -> float:
        """When :meth:`handle_time` has something to do (seconds); infinity for never."""
        ...

    def handle_time(self) -> None:
        """Do what is due."""
        ...

    def on_failure(self, count: Callable[[], None]) -> None:
        """Call ``count`` whenever a bug has ended a group, and only that group."""
        ...


def with_routed_groups(
    rule_for: Callable[[str], Rule], has_group: Callable[[str], bool]
) -> Callable[[str], Rule]:
    """Return what sessions go by: as long as a router has a group, its calls are handed over, whatever the policy says.

    Else a session would relay what may join at the broker on the way back, before the translation has seen it.
    """
    return lambda group_id: (
        Rule(mode=Mode.HOST, group=group_id) if has_group(group_id) else rule_for(group_id)
    )
