"""Runs the proxy in this process with the demo's own configuration; its policy is `observe` at first."""

from collections.abc import Iterable

import trio

from proxy.config.loader import parse_policy
from proxy.config.reporting import JournalSection
from proxy.config.schema import Admin, Config, Drain, Listener, Upstream
from proxy.groups.group_records import MemberRecord
from proxy.server.server import Server
from translation.actions import MemberProtocol
from translation.policy.policy import Policy
from translation.translator import Translator

_LOOPBACK = "127.0.0.1"
_DRAIN_S = 2.0


class DemoProxy:
    """A proxy on free loopback ports. Its journal is in the folder ``journal``, if that is not None."""

    def __init__(self, bootstrap: str, node_ids: Iterable[int], journal: str | None = None) -> None:
        listener = Listener(
            bind=_LOOPBACK,
            port=0,
            advertised_host=_LOOPBACK,
            nodes={str(node_id): 0 for node_id in node_ids},
        )
        config = Config(
            upstream=Upstream(bootstrap=tuple(bootstrap.split(","))),
            listeners=(listener,),
            admin=Admin(port=0),
            drain=Drain(grace_s=_DRAIN_S),
            journal=JournalSection(path=journal),
        )
        policy = Policy()
        self._server = Server(config, Translator(policy), policy=policy)

    @property
    def bootstrap(self) -> str:
        """The address that its clients connect to."""
        return f"{_LOOPBACK}:{self._server.ports.listeners[0].port}"

    def set_policy(self, text: str) -> None:
        """Apply another policy, the text of a policy file."""
        self._server.set_policy(parse_policy("the demo's policy", text))

    def member(self, group_id: str, client_id: str) -> MemberRecord | None:
        """Return what the proxy knows of the member with this client id; None if it knows of none."""
        group = self._server.observability.registry.groups.get(group_id)
        members = () if group is None else group.members.values()
        return next((member for member in members if member.client_id == client_id), None)

    def translates(self, group_id: str, client_id: str) -> bool:
        """Whether the client is a member of the new protocol by this proxy."""
        member = self.member(group_id, client_id)
        return member is not None and member.protocol == MemberProtocol.TRANSLATED

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. ``task_status`` starts once clients can connect."""
        await self._server.run(task_status)
