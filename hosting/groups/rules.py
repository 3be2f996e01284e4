"""The seam of a hosted group: what a protocol type decides, and what the group itself does for every type.

The group (:mod:`hosting.groups.group`) knows sessions, JoinGroups that wait, generations, static members,
bounds. A protocol type knows how its JoinGroup's metadata and its assignments are read and written, what a member owns
by them, and the embedded coordinator that has the members under the new protocol
(:mod:`hosting.groups.consumers` for ``consumer``, :mod:`hosting.groups.connect` for ``connect``).
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Protocol, TypeVar

from hosting.groups.member import HostedMember, JoinResult, Offer
from protocol_codecs.all_messages import JoinGroupRequest, SyncGroupRequestAssignment
from protocol_codecs.error_code import ErrorCode

OfferT = TypeVar("OfferT", bound=Offer)


class ProtocolRules(Protocol[OfferT]):
    """One group of a protocol type. Times are in milliseconds."""

    protocol_type: str
    goes_on_without_membership: bool
    """Whether clients keep what they own when they have lost their membership, and say so as they join again."""

    @property
    def kept_bytes(self) -> int:
        """How many bytes are kept of assignments. Those of JoinGroups are the group's to count."""
        ...

    def read_join(self, message: JoinGroupRequest) -> OfferT | None:
        """What a JoinGroup of this type brings; None if it can't be read."""
        ...

    def next_deadline_ms(self) -> int | None:
        """When :meth:`advance` has something to do; None if never."""
        ...

    def advance(self, now_ms: int) -> None:
        """Do what is due: members that took too long, a leader whose time to compute is over."""
        ...

    # -- membership

    def join(
        self, member: HostedMember, offer: OfferT, replaced: HostedMember | None, now_ms: int
    ) -> ErrorCode:
        """Let a new member in; it takes the place of the static member ``replaced``, which has left for it."""
        ...

    def rejoin(self, member: HostedMember, offer: OfferT) -> None:
        """Note what a member's new JoinGroup brings. ``member`` is as before it; a declaring move follows."""
        ...

    def leave(self, member: HostedMember, now_ms: int, *, is_replaced: bool = False) -> None:
        """End a membership. If it is replaced, its place is kept for a :meth:`join`."""
        ...

    def keep_for_a_session(self, member: HostedMember, now_ms: int) -> None:
        """Give to nobody what a member owns that is about to leave, until its session would have ended.

        Its client may go on, and come again without the member id, which it has not been told.
        """
        ...

    def forget(self, member: HostedMember) -> None:
        """Forget a client that is no member any more."""
        ...

    def present(self) -> AbstractSet[str]:
        """The members that the embedded coordinator has: it removes who takes too long to give something up."""
        ...

    # -- towards the target

    def move(self, member: HostedMember, now_ms: int, *, declares: bool = False) -> ErrorCode:
        """Let a member take the steps towards its target that it can take now.

        ``declares``: with what its JoinGroup has brought. UNKNOWN_MEMBER_ID if the coordinator has fenced it.
        """
        ...

    def has_nothing_new(self, member: HostedMember) -> bool:
        """Whether nothing has come yet of what a JoinGroup waits for, as far as that is cheap to say.

        It is asked for each that waits at every call of the group.
        """
        ...

    def has_to_wait(self, member: HostedMember) -> bool:
        """Whether a JoinGroup waits for the target, or for what others have not given up yet."""
        ...

    def join_result(self, member: HostedMember, members: dict[str, HostedMember], now_ms: int) -> JoinResult:
        """The answer to a JoinGroup; the one of the member that is to compute begins the computation."""
        ...

    def take_assignments(
        self, member: HostedMember, assignments: Iterable[SyncGroupRequestAssignment], now_ms: int
    ) -> bool:
        """Take what a leader's SyncGroup has brought, if the member was told that it leads.

        False if it has to compute again.
        """
        ...

    def hand_out(self, member: HostedMember) -> bytes | None:
        """The assignment that a member's SyncGroup is answered with; None if it is a member no longer."""
        ...

    def has_to_rejoin(self, member: HostedMember) -> bool:
        """Whether the member is to compute the target, or its part differs from what its client was told."""
        ...
