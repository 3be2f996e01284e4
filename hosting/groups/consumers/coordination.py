"""The embedded coordinator of one hosted group: its members' heartbeats, Prepare- and InstallAssignment."""

from collections.abc import Mapping
from typing import Any

from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.consumer_groups.member import ConsumerGroupMember
from coordinator.group_coordinator import GroupCoordinator
from coordinator.image import MetadataImage
from coordinator.partitions import Partitions
from coordinator.shard import Call
from coordinator.uuids import UuidSource
from hosting.groups.consumers.client import ConsumerClient
from hosting.groups.member import HostedMember
from hosting.groups.settings import COORDINATOR_CONFIG
from protocol_codecs.all_messages import ConsumerGroupHeartbeatRequestTopicPartitions
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.experimental import (
    ClientAssignorsHeartbeatRequest,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentRequestMember,
    ConsumerGroupInstallAssignmentRequestTopicPartition,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    HeartbeatClientAssignor,
)
from protocol_codecs.message import Message

_CALL_VERSION = 1


class Coordination:
    """The consumer group with client-side assignors whose members the clients are."""

    def __init__(self, group_id: str, uuids: UuidSource) -> None:
        self.group_id = group_id
        self._coordinator = GroupCoordinator(COORDINATOR_CONFIG, uuids=uuids)

    @property
    def image(self) -> MetadataImage:
        """The topics, as they were assigned last."""
        return self._coordinator.shard.image

    @property
    def group(self) -> ConsumerGroup | None:
        """The group; None as long as it has had no member."""
        group = self._coordinator.shard.groups.get(self.group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def own(self, member: HostedMember) -> ConsumerGroupMember | None:
        """Return what the coordinator has of a member; None if it has none."""
        group = self.group
        return None if group is None else group.members.get(member.member_id)

    def update_image(self, image: MetadataImage, now_ms: int) -> None:
        """Let the coordinator know other topics."""
        self._coordinator.update_image(image, now_ms)

    def next_deadline_ms(self) -> int | None:
        """Return when :meth:`advance` has something to do; None if never."""
        return self._coordinator.next_deadline_ms()

    def advance(self, now_ms: int) -> None:
        """Do what is due: members that took too long, a leader whose time to compute is over."""
        self._coordinator.advance(now_ms)

    def heartbeat(
        self,
        member: HostedMember,
        client: ConsumerClient,
        now_ms: int,
        *,
        epoch: int | None = None,
        declares: bool = False,
    ) -> ErrorCode:
        """Send a member's heartbeat; at its present epoch if none is given."""
        if epoch is None:
            own = self.own(member)
            if own is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            epoch = own.member_epoch
        reported = None if client.reported is None or epoch < 0 else client.reported
        request = ClientAssignorsHeartbeatRequest(
            group_id=self.group_id,
            member_id=member.member_id,
            member_epoch=epoch,
            instance_id=member.instance_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms if declares else -1,
            subscribed_topic_names=client.topics if declares else None,
            topic_partitions=None
            if reported is None
            else tuple(
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in reported.items()
            ),
            client_assignors=tuple(
                HeartbeatClientAssignor(
                    name=name,
                    minimum_version=0,
                    maximum_version=0,
                    metadata_version=0,
                    metadata_bytes=client.revision.to_bytes(8, "big"),
                )
                for name in member.subscriptions
            )
            if declares
            else None,
        )
        response: Any = self._ask(request, member, now_ms)
        return ErrorCode(response.error_code)

    def prepare(
        self, member: HostedMember, own: ConsumerGroupMember, now_ms: int
    ) -> ConsumerGroupPrepareAssignmentResponse:
        """Ask for what the member that computes is to know."""
        request = ConsumerGroupPrepareAssignmentRequest(
            group_id=self.group_id, member_id=member.member_id, member_epoch=own.member_epoch
        )
        response: ConsumerGroupPrepareAssignmentResponse = self._ask(request, member, now_ms)  # type: ignore[assignment]
        return response

    def install(
        self,
        member: HostedMember,
        own: ConsumerGroupMember,
        group_epoch: int,
        parts: Mapping[str, Partitions],
        contents: Mapping[str, bytes],
        now_ms: int,
    ) -> bool:
        """Make these parts the target, if they are valid. ``contents`` are the leader's own bytes for each member."""
        request = ConsumerGroupInstallAssignmentRequest(
            group_id=self.group_id,
            member_id=member.member_id,
            member_epoch=own.member_epoch,
            group_epoch=group_epoch,
            members=tuple(
                ConsumerGroupInstallAssignmentRequestMember(
                    member_id=one,
                    partitions=tuple(
                        ConsumerGroupInstallAssignmentRequestTopicPartition(
                            topic_id=topic_id, partitions=numbers
                        )
                        for topic_id, numbers in part.items()
                    ),
                    metadata_version=0,
                    metadata_bytes=contents[one],
                )
                for one, part in parts.items()
            ),
        )
        response: Any = self._ask(request, member, now_ms)
        return not response.error_code

    def _ask(self, request: Message, member: HostedMember, now_ms: int) -> Message:
        call = Call(0, _CALL_VERSION, client_id=member.client_id, client_host=member.client_host)
        (reply,) = self._coordinator.handle(request, call, now_ms)
        return reply.response
