"""FindCoordinator (10), v0 to v6, for groups only: transactions are not supported, and the share
coordinator (key type 2) is none of a client's business."""

from coordinator.broker.context import RequestScope
from protocol_codecs.all_messages import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from protocol_codecs.error_code import ErrorCode

GROUP = 0
FIRST_VERSION_WITH_SEVERAL_KEYS = 4
_NOBODY = -1


async def serve(context: RequestScope, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Serve the request."""
    if context.version >= FIRST_VERSION_WITH_SEVERAL_KEYS:
        found = tuple(_find(context, request.key_type, key) for key in request.coordinator_keys)
        return FindCoordinatorResponse(coordinators=found)
    one = _find(context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _find(context: RequestScope, key_type: int, key: str) -> Coordinator:
    if key_type != GROUP:
        return Coordinator(
            key=key,
            node_id=_NOBODY,
            port=_NOBODY,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="the embedded broker coordinates groups only",
        )
    address = context.cluster.addresses[context.cluster.coordinator_of(key)]
    return Coordinator(key=key, node_id=address.node_id, host=address.host, port=address.port)
