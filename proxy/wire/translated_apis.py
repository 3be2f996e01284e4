"""Which APIs the proxy decodes and hands to the translation; the requests of all others are relayed.

Whether such a call is translated or relayed after all follows from the policy and the group's state
(:mod:`translation.routing`).
"""

from protocol_codecs import ApiKey

TRANSLATED: frozenset[int] = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DESCRIBE_GROUPS,
    }
)
"""The APIs that are decoded and handed to the translation, whatever the policy says of the group."""

GUARDED: frozenset[int] = frozenset(
    {ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT}
)
"""The APIs that are handed to the translation only if the policy lets nobody join the group by them."""

WITH_GROUP_ID: frozenset[int] = TRANSLATED - {ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS} | GUARDED
"""Those whose requests begin with the one group that they are about (behind a transactional id, if any)."""
