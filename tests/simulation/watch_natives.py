"""Invariant 8: the proxy leaves a member of the new protocol alone, even if the member connects through it.

The broker answers its calls. The proxy never takes it over, sends nothing in its name, and refuses no commit that the
broker would have accepted.
"""

from typing import TYPE_CHECKING, Any

from protocol_codecs import ApiKey, ErrorCode
from tests.simulation.clients.native import NativeMember
from tests.simulation.standing import MEMBERSHIP_IS_OVER
from tests.simulation.violation import Violation
from tests.simulation.watch import Watch
from tests.simulation.wire import Ask, codes_in
from translation.actions import Call, Event, EventKind

if TYPE_CHECKING:
    from tests.simulation.proxy_process import ProxyProcess

_REFUSALS = MEMBERSHIP_IS_OVER | {
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION,
}


class NativeWatch:
    """Observes the proxy's handling of new-protocol members' calls; the methods are those of :class:`Watch`."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._members: dict[str, NativeMember] = {}

    def began(self, member: NativeMember) -> None:
        """Record that a member of the new protocol starts. Each process has an id of its own."""
        while member.member_id in self._members:
            member.member_id += "'"
        self._members[member.member_id] = member

    # -- what a proxy does for them --------------------------------------------------------------------------------

    def call_arrived(self, process: "ProxyProcess", client: NativeMember, ask: Ask) -> None:
        """Ignore it: the member is not judged by what a proxy has read of it."""

    def abandoned(self, client: NativeMember, ask: Ask) -> None:
        """Ignore it, for the same reason."""

    def forwarded(self, process: "ProxyProcess", client: NativeMember, ask: Ask) -> None:
        self._watch.tell(process, f"relays for {client}:", ask.message)

    def relayed(self, process: "ProxyProcess", client: NativeMember, ask: Ask, message: Any) -> None:
        """Handle an answer of the broker itself."""
        codes = codes_in(message)
        if ask.api_key == ApiKey.OFFSET_COMMIT:
            self._watch.count("commits of members of the new protocol, through the proxy")
        elif codes & MEMBERSHIP_IS_OVER:
            self._watch.standings[client].end("the broker told it that its membership is over")

    def answered(
        self, process: "ProxyProcess", client: NativeMember, ask: Ask, message: Any, *, arrives: bool
    ) -> None:
        """Handle an answer of the proxy itself."""
        refusals = codes_in(message) & _REFUSALS
        if ask.api_key != ApiKey.OFFSET_COMMIT or not refusals:
            return
        group = self._watch.broker.group
        member = None if group is None else group.members.get(client.member_id)
        epoch = ask.message.generation_id_or_member_epoch
        if member is not None and member.member_epoch == epoch:
            names = ", ".join(sorted(ErrorCode(code).name for code in refusals))
            raise Violation(8, f"a commit of {client} at epoch {epoch}, which it has, is refused: {names}")

    def called(self, process: "ProxyProcess", call: Call, *, lost: bool) -> None:
        self._watch.tell(process, f"calls for {call.client_id}:", call.message)
        if not lost:
            self._watch.check_call(process, call)

    def called_back(self, process: "ProxyProcess", call: Call, message: Any) -> None:
        self._watch.tell(process, f"<- for {call.client_id}", message)

    # -- what must be so -------------------------------------------------------------------------------------------

    def check_call(self, process: "ProxyProcess", call: Call) -> None:
        """Check that the proxy's own calls are not in the name of such a member."""
        message = call.message
        named = [getattr(message, "member_id", "")]
        if call.api_key == ApiKey.LEAVE_GROUP:
            named += [identity.member_id for identity in message.members]
        speaks = call.api_key in {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP}
        for member_id in named:
            if speaks and member_id in self._members:
                what = self._watch.story.message(message)
                raise Violation(8, f"{process} speaks for {self._members[member_id]}: {what}")

    def check_event(self, process: "ProxyProcess", event: Event) -> None:
        """Check that no such member is taken over."""
        if event.kind is EventKind.ADOPTED and event.member_id in self._members:
            raise Violation(8, f"{process} adopts {self._members[event.member_id]}")
