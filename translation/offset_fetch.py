"""OffsetFetch v9 and later: the member fields are left out, because they would be checked against the epoch.

A classic client puts its generation there (franz-go does); the broker checks it strictly for new-protocol
groups, while for a classic client it never meant anything.
"""

from protocol_codecs import ApiKey
from protocol_codecs.messages.offset_fetch import OffsetFetchRequest
from translation.actions import Request
from translation.context import Context, replaced
from translation.exchange import Ask, Steps


def names_a_member(message: OffsetFetchRequest, translated: frozenset[str]) -> bool:
    """Whether member fields are set for one of these groups."""
    return any(group.member_id and group.group_id in translated for group in message.groups)


def offset_fetch(context: Context, request: Request, translated: frozenset[str]) -> Steps:
    """Ask without the member fields of the groups that are translated, and answer as it comes."""
    message: OffsetFetchRequest = request.message
    groups = tuple(
        replaced(group, member_id=None, member_epoch=-1) if group.group_id in translated else group
        for group in message.groups
    )
    response = yield Ask(ApiKey.OFFSET_FETCH, request.version, replaced(message, groups=groups))
    context.answer(request, response)
