"""ConsumerGroupPrepareAssignment (a private key), v0: tells the computing member of the group. An experiment."""

from coordinator.consumer_groups.client_side.preparing import computation_of, prepare
from coordinator.errors import RequestRefused
from coordinator.shard import Call, Shard
from protocol_codecs.experimental import (
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)


def serve(
    shard: Shard, request: ConsumerGroupPrepareAssignmentRequest, _call: Call
) -> ConsumerGroupPrepareAssignmentResponse:
    """Serve the request."""
    try:
        return prepare(shard, *computation_of(shard, request))
    except RequestRefused as refused:
        return ConsumerGroupPrepareAssignmentResponse(error_code=refused.code, error_message=refused.message)
