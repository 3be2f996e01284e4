"""A classic member."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from protocol_codecs import ErrorCode
from protocol_codecs import all_messages as m
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_assignment,
    encode_subscription,
)
from tests.coordinator.script.backend import Partitions, Pending, error_name
from tests.coordinator.script.conversation import Conversation

_NO_PARTITIONS = bytes(4)  # the length of an empty array


@dataclass
class Classic:
    """A classic member that remembers its id, its generation and what it was assigned."""

    script: Conversation
    name: str
    topics: Sequence[str] = ("foo",)
    instance_id: str | None = None
    protocols: Sequence[str] = ("range",)
    protocol_type: str = "consumer"
    session_timeout_ms: int = 30_000
    rebalance_timeout_ms: int = 30_000
    version: int = 9
    embedded_version: int = 3
    user_data: bytes | None = None
    rack_id: str | None = None
    cut_short: bool = False
    """Whether its subscription, of version 1, ends before what it owns, as kafka-go's does."""
    member_id: str = ""
    generation: int = -1
    assigned: Partitions = field(default_factory=dict)
    others: tuple[str, ...] = ()
    is_leader: bool = False

    def send_join(self, owned: Partitions | None = None, **changes: Any) -> Pending:
        """Send a JoinGroup; :meth:`joined` takes the answer."""
        metadata = encode_subscription(
            ConsumerProtocolSubscription(
                topics=tuple(self.script.full(topic) for topic in self.topics),
                user_data=self.user_data,
                owned_partitions=self._named(self.assigned if owned is None else owned),
                generation_id=self.generation if self.embedded_version >= 2 else -1,
                rack_id=self.rack_id,
            ),
            self.embedded_version,
        )
        if self.cut_short:
            metadata = metadata[: -len(_NO_PARTITIONS)]
        fields = {
            "group_id": self.script.group_id,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms if self.version >= 1 else -1,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocols": tuple(m.JoinGroupRequestProtocol(name=p, metadata=metadata) for p in self.protocols),
        }
        return self.script.send(m.JoinGroupRequest(**fields | changes), self.version, self.name)

    def joined(self, pending: Pending) -> m.JoinGroupResponse:
        """Take the answer to a JoinGroup."""
        response = pending.result()
        if response.member_id:
            self.member_id = response.member_id
        self.others = tuple(member.member_id for member in response.members)
        self.is_leader = bool(response.leader) and response.leader == response.member_id
        self.script.note(
            f"{self.name} joined",
            {
                "error": error_name(response.error_code),
                "generation": response.generation_id,
                "protocol": [response.protocol_type, response.protocol_name],
                "leader": self.script.short(response.leader),
                "member": self.script.short(response.member_id),
                "members": sorted(map(self.script.short, self.others)),
                "skip": response.skip_assignment,
            },
        )
        if response.error_code == 0:
            self.generation = response.generation_id
        return response

    def join(self, owned: Partitions | None = None, **changes: Any) -> m.JoinGroupResponse:
        """Join and take the answer; with a member id asked for first if need be."""
        response = self.joined(self.send_join(owned, **changes))
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            response = self.joined(self.send_join(owned, **changes))
        return response

    def ask_member_id(self) -> None:
        self.joined(self.send_join())

    def send_sync(self, assignments: dict[str, Partitions] | None = None, **changes: Any) -> Pending:
        """Send a SyncGroup; the leader's carries assignments by member id."""
        fields = {
            "group_id": self.script.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocols[0],
            "assignments": tuple(
                m.SyncGroupRequestAssignment(
                    member_id=member_id,
                    assignment=encode_assignment(
                        ConsumerProtocolAssignment(
                            assigned_partitions=self._named(partitions), user_data=self.user_data
                        ),
                        1,
                    ),
                )
                for member_id, partitions in (assignments or {}).items()
            ),
        }
        return self.script.send(m.SyncGroupRequest(**fields | changes), client_id=self.name)

    def synced(self, pending: Pending) -> m.SyncGroupResponse:
        """Take the answer to a SyncGroup."""
        response = pending.result()
        assignment = self.script.embedded(response.assignment)
        self.script.note(
            f"{self.name} synced",
            {
                "error": error_name(response.error_code),
                "protocol": [response.protocol_type, response.protocol_name],
                "assignment": assignment,
            },
        )
        if response.error_code == 0:
            self.assigned = assignment or {}
        return response

    def sync(self, assignments: dict[str, Partitions] | None = None, **changes: Any) -> m.SyncGroupResponse:
        return self.synced(self.send_sync(assignments, **changes))

    def beat(self, **changes: Any) -> str:
        fields = {
            "group_id": self.script.group_id,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        response = self.script.call(m.HeartbeatRequest(**fields | changes), client_id=self.name)
        error = error_name(response.error_code)
        self.script.note(f"{self.name} beats", error)
        return error

    def leave(self, *, by_instance: bool = False, version: int | None = None) -> None:
        identity = m.MemberIdentity(
            member_id="" if by_instance else self.member_id, group_instance_id=self.instance_id
        )
        response = self.script.call(
            m.LeaveGroupRequest(group_id=self.script.group_id, members=(identity,)), client_id=self.name
        )
        errors = [error_name(member.error_code) for member in response.members]
        self.script.note(f"{self.name} leaves", [error_name(response.error_code), errors])
        self.assigned = {}

    def commit(
        self, topics: dict[str, dict[int, int]], *, version: int = 9, epoch: int | None = None
    ) -> None:
        self.script.commit(
            self.name,
            topics,
            epoch=self.generation if epoch is None else epoch,
            member_id=self.member_id,
            instance_id=self.instance_id,
            version=version,
        )

    def _named(self, partitions: Partitions) -> tuple[ConsumerProtocolTopicPartition, ...]:
        return tuple(
            ConsumerProtocolTopicPartition(topic=self.script.full(name), partitions=tuple(numbers))
            for name, numbers in partitions.items()
        )
