"""Where a trace is played: real translators, the embedded coordinator, and clients that do what they are told.

Time stands still. A call, and everything that the translation asks of the broker for it, is carried out at once, so
what happens, and in which order, is what the trace says. A target assignment is the one that the trace says, too.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import msgspec

from coordinator import timers
from coordinator.assignors import ASSIGNORS, GroupSpec
from coordinator.classic_groups.group import ClassicGroup
from coordinator.config import CoordinatorConfig
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.group_coordinator import GroupCoordinator
from coordinator.image import MetadataImage, TopicImage
from coordinator.shard import Call as CoordinatorCall
from coordinator.uuids import SeededUuids
from protocol_codecs import ApiKey
from tests.simulation.broker import metadata
from tests.simulation.wire import GROUP, KAFKA_4_3
from translation.actions import (
    Action,
    Answer,
    Call,
    Connection,
    ConnectionId,
    Forward,
    Request,
    RequestId,
)
from translation.conversion.helper import Helpers
from translation.members.conversion import is_helper
from translation.members.member import Member
from translation.policy.policy import Mode, Policy, Rule
from translation.settings import TranslatorSettings
from translation.translator import Translator

TOPIC = "orders"
_NOW_MS = 1_000_000
_NOW_S = _NOW_MS / 1000

Target = Mapping[str, frozenset[int]]
"""Partitions of the topic by member id."""


class Line(msgspec.Struct, eq=False):
    """A connection of a client to a proxy."""

    client: str
    proxy: str
    connection: Connection
    is_closed: bool = False


class Asked(msgspec.Struct, eq=False):
    """A call of a client; ``response`` is None until it is answered."""

    line: Line
    request: Request
    response: Any = None


class Stage:
    """A broker, proxies by name, and the connections of clients."""

    def __init__(self, proxies: tuple[str, ...], partitions: int) -> None:
        self.target: Target = {}
        """What the next computed target assignment is."""
        self.loses_response = False
        """Whether the broker's response to the next heartbeat is lost, with its connection."""
        self._last_id = 0
        self._asked: dict[tuple[str, RequestId], Asked] = {}
        self._lines: dict[tuple[str, ConnectionId], Line] = {}
        self._at_broker: dict[int, Callable[[Any], None]] = {}
        uuids = SeededUuids(1)
        self.topic = TopicImage(uuids.next(), TOPIC, partitions)
        config = CoordinatorConfig(
            consumer_assignment_interval_ms=0,
            consumer_assignor_moves_epoch=False,
            classic_initial_rebalance_delay_ms=0,
        )
        self.coordinator = GroupCoordinator(config, uuids=uuids)
        self.coordinator.update_image(MetadataImage().with_topic(self.topic), _NOW_MS)
        settings = TranslatorSettings(
            sole_process=len(proxies) == 1,
            join_wait_s=0.0,
            join_wait_after_outage_s=0.0,
            assignment_interval_s=0.0,
            addition_debounce_s=0.0,
        )
        self._new_ids = 0
        self.proxies = {
            name: Translator(_policy(Mode.OBSERVE), settings=settings, new_uuid=self._new_uuid)
            for name in proxies
        }

    def _new_uuid(self) -> str:
        self._new_ids += 1
        return f"m{self._new_ids}"

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    @contextmanager
    def opened(self) -> Iterator[None]:
        """While it is open, the coordinator assigns what :attr:`target` says."""
        with patch.dict(ASSIGNORS, dict.fromkeys(ASSIGNORS, self._assign)):
            yield

    def _assign(self, spec: GroupSpec) -> dict[str, Mapping[Any, tuple[int, ...]]]:
        return {
            member_id: {self.topic.topic_id: tuple(sorted(given))} if given else {}
            for member_id in spec.members
            for given in (self.target.get(member_id, frozenset()),)
        }

    # -- what happens ----------------------------------------------------------------------------------------------

    def set_mode(self, proxy: str, mode: Mode) -> None:
        """Change the policy of a proxy."""
        self._act(proxy, self.proxies[proxy].set_policy(_NOW_S, _policy(mode)))

    def connect(self, client: str, proxy: str) -> Line:
        """Open a connection."""
        connection_id = ConnectionId(self._next_id())
        line = Line(client, proxy, Connection(connection_id, f"/{client}", KAFKA_4_3))
        line.connection = msgspec.structs.replace(line.connection, peer_closed=lambda: line.is_closed)
        self._lines[proxy, connection_id] = line
        return line

    def close(self, line: Line) -> None:
        """Close a connection from the client's side."""
        line.is_closed = True
        translator = self.proxies[line.proxy]
        self._act(line.proxy, translator.client_disconnected(_NOW_S, line.connection.id))

    def ask(self, line: Line, api_key: ApiKey, version: int, message: Any) -> Asked:
        """Make a call of a client."""
        translator = self.proxies[line.proxy]
        request = Request(RequestId(self._next_id()), line.connection, api_key, version, line.client, message)
        asked = self._asked[line.proxy, request.id] = Asked(line, request)
        if api_key == ApiKey.HEARTBEAT:
            translator.predict(_NOW_S, request)
        self._act(line.proxy, translator.handle_request(_NOW_S, request))
        return asked

    def member_time(self, proxy: str, member: Member, *, keep_alive: bool) -> None:
        """Let the time come for what the proxy does of its own accord for a member: tell of additions, or heartbeat."""
        translator = self.proxies[proxy]
        if keep_alive:
            member.deadlines.keep_alive_at = _NOW_S
        translator._deadlines.member_time(member, _NOW_S)
        self._act(proxy, translator.take_actions(_NOW_S))

    def helper_time(self, proxy: str) -> None:
        """Let the time come for the heartbeat of the helper that a proxy has in the group."""
        translator = self.proxies[proxy]
        conversion = translator._context.registry.groups[GROUP].conversion
        assert conversion is not None, f"{proxy} has no helper"
        conversion.on_time(_NOW_S)
        self._act(proxy, translator.take_actions(_NOW_S))

    def end_conversions_without_a_helper(self) -> None:
        """Let the time pass in which a proxy that has no helper in the group watches the conversion."""
        for translator in self.proxies.values():
            group = translator._context.registry.groups.get(GROUP)
            if group is not None and group.conversion is not None and not group.conversion.helper_id:
                Helpers(translator._context).end(group)

    def end_session(self, member_id: str) -> None:
        """Let the session of a member end whose client is dead: where it is translated, and at the broker."""
        for name in self.proxies:
            member = self.member(name, member_id)
            if member is not None:
                member.deadlines.session_deadline = _NOW_S
                self.member_time(name, member, keep_alive=False)
        if self.group is None or member_id not in self.group.members:
            return
        kind = timers.ClassicHeartbeat if isinstance(self.group, ClassicGroup) else timers.SessionTimeout
        self.coordinator.shard.timers.schedule(kind(GROUP, member_id), _NOW_MS)
        self._answer(self.coordinator.advance(_NOW_MS))

    # -- what can be seen ------------------------------------------------------------------------------------------

    @property
    def group(self) -> ConsumerGroup | ClassicGroup | None:
        """The group at the broker."""
        group = self.coordinator.shard.groups.get(GROUP)
        assert group is None or isinstance(group, ConsumerGroup | ClassicGroup)
        return group

    @property
    def has_helper(self) -> bool:
        """Whether a helper is in the group."""
        return self.group is not None and any(map(is_helper, self.group.members))

    def member(self, proxy: str, member_id: str) -> Member | None:
        """The translated member as a proxy knows it."""
        member = self.proxies[proxy]._context.registry.find(GROUP, member_id)
        return member if member is not None and member.joined else None

    # -- the shell -------------------------------------------------------------------------------------------------

    def _act(self, proxy: str, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Answer():
                    self._asked[proxy, action.request_id].response = action.message
                case Forward():
                    self._forward(proxy, self._asked[proxy, action.request_id])
                case Call():
                    self._call(proxy, action)

    def _forward(self, proxy: str, asked: Asked) -> None:
        def answered(response: Any) -> None:
            asked.response = response
            actions = self.proxies[proxy].handle_relayed_response(_NOW_S, asked.request, response)
            self._act(proxy, actions)

        self._send(asked.line, asked.request, answered)

    def _call(self, proxy: str, call: Call) -> None:
        translator, line = self.proxies[proxy], self._lines[proxy, call.connection_id]

        def answered(response: Any) -> None:
            if self.loses_response and call.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
                self.loses_response = False
                line.is_closed = True
                self._act(proxy, translator.upstream_lost(_NOW_S, line.connection.id))
            else:
                self._act(proxy, translator.handle_reply(_NOW_S, call.call_id, response))

        self._send(line, call, answered)

    def _send(self, line: Line, what: Request | Call, answered: Callable[[Any], None]) -> None:
        if what.api_key == ApiKey.METADATA:
            answered(metadata(self.coordinator.shard.image, what.message))
            return
        number = self._next_id()
        self._at_broker[number] = answered
        call = CoordinatorCall(number, what.version, what.client_id or "", f"/{line.client}")
        self._answer(self.coordinator.handle(what.message, call, _NOW_MS))

    def _answer(self, replies: list[Any]) -> None:
        for reply in replies:
            self._at_broker.pop(reply.request_id)(reply.response)


def _policy(mode: Mode) -> Policy:
    return Policy(rules=(Rule(pattern=".*", mode=mode),))
