"""The types of groups, and the calls by which a member joins a group of each.

On a broker the first member decides which type a group has (KIP-932 gave up its ``group.type`` setting). A rule of the
policy may say it beforehand, so that whoever comes first with the wrong client does not decide it.
"""

from collections.abc import Mapping
from enum import StrEnum

from protocol_codecs import ApiKey


class GroupType(StrEnum):
    """What kind of group an id belongs to; a group of classic consumers is a ``consumer`` group too."""

    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


JOINED_BY: Mapping[int, GroupType] = {
    ApiKey.JOIN_GROUP: GroupType.CONSUMER,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: GroupType.CONSUMER,
    ApiKey.SHARE_GROUP_HEARTBEAT: GroupType.SHARE,
    ApiKey.STREAMS_GROUP_HEARTBEAT: GroupType.STREAMS,
}
"""The type of the group that an API joins; the heartbeats do so at member epoch 0."""
