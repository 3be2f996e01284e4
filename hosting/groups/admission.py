"""Whether a JoinGroup may be looked at: what it has to have, and the bounds of what is kept of clients."""

from collections.abc import Collection

import msgspec

from coordinator.consumer_groups.client_side.declaring import MOST_ASSIGNORS
from hosting.groups.member import HostedCall, HostedMember
from hosting.groups.rules import OfferT, ProtocolRules
from hosting.groups.settings import HostedSettings
from protocol_codecs.all_messages import JoinGroupRequest
from protocol_codecs.error_code import ErrorCode


def check_join(
    rules: ProtocolRules[OfferT],
    settings: HostedSettings,
    call: HostedCall,
    message: JoinGroupRequest,
    *,
    others: Collection[HostedMember],
    former: HostedMember | None,
    room_left: int,
) -> OfferT | ErrorCode:
    """Return what a JoinGroup brings, with all that is kept of it as its size, or an error.

    ``others`` are the group's members without ``former``, the member itself or the one that it replaces;
    ``room_left`` is how many more bytes may be kept of all groups.
    """
    if not settings.session_timeout_min_ms <= message.session_timeout_ms <= settings.session_timeout_max_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    names = [protocol.name for protocol in message.protocols]
    if (
        message.protocol_type != rules.protocol_type
        or not 0 < len(set(names)) == len(names) <= MOST_ASSIGNORS
        or not all(name.strip() for name in names)
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    offer = rules.read_join(message)
    if offer is None or not set(names).intersection(*(one.subscriptions for one in others)):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    texts = (call.client_id, message.group_instance_id or "", *names)
    size = offer.size + sum(map(len, texts))
    grows_by = size if former is None else size - former.size
    if (
        (former is None and len(others) >= settings.most_members)
        or sum(one.size for one in others) + size > settings.most_bytes
        or grows_by > max(0, room_left)
    ):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    return msgspec.structs.replace(offer, size=size)
