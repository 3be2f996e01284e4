"""The additions of client-side assignors to the records of a consumer group: tagged fields of types 5, 7 and 8.

A coordinator without the experiment reads the same log and skips them; its groups are assigned on the server's side.
"""

from protocol_codecs.experimental_keys import FIRST_TAG
from protocol_codecs.fields import array, binary, int8, int16, string
from protocol_codecs.message import Message
from protocol_codecs.records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from protocol_codecs.records.coordinator_record import RecordType, consumer_offsets_codec
from protocol_codecs.records.record_types import Declared


class MemberClientAssignor(Message):
    """One client-side assignor that the member declared."""

    name: str = string()
    minimum_version: int = int16()
    maximum_version: int = int16()
    reason: int = int8()
    version: int = int16()
    metadata: bytes = binary()


class MemberMetadataWithClientAssignors(ConsumerGroupMemberMetadataValue, versions="0", flexible="0+"):
    """The declarations of a member (type 5), its client-side assignors among them."""

    client_assignors: tuple[MemberClientAssignor, ...] = array(MemberClientAssignor, tag=FIRST_TAG)


class TargetAssignmentWithDetails(ConsumerGroupTargetAssignmentMemberValue, versions="0", flexible="0+"):
    """The target assignment of a member (type 7), with what the assignor said beside the partitions."""

    error: int = int8(tag=FIRST_TAG)
    metadata_version: int = int16(tag=FIRST_TAG + 1)
    metadata_bytes: bytes = binary(tag=FIRST_TAG + 2)


class CurrentAssignmentWithDetails(ConsumerGroupCurrentMemberAssignmentValue, versions="0", flexible="0+"):
    """The current assignment of a member (type 8), with what the assignor said beside the partitions."""

    error: int = int8(tag=FIRST_TAG)
    metadata_version: int = int16(tag=FIRST_TAG + 1)
    metadata_bytes: bytes = binary(tag=FIRST_TAG + 2)


CONSUMER_OFFSETS_WITH_CLIENT_ASSIGNORS = consumer_offsets_codec(
    {
        RecordType.CONSUMER_GROUP_MEMBER_METADATA: Declared(
            ConsumerGroupMemberMetadataKey, MemberMetadataWithClientAssignors
        ),
        RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Declared(
            ConsumerGroupTargetAssignmentMemberKey, TargetAssignmentWithDetails
        ),
        RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Declared(
            ConsumerGroupCurrentMemberAssignmentKey, CurrentAssignmentWithDetails
        ),
    }
)
"""``__consumer_offsets`` of an embedded broker with the experiment."""
