"""ConsumerGroupInstallAssignment (a private key), v0: makes what a member computed the target. An experiment."""

from coordinator.consumer_groups.client_side.installing import InvalidAssignment, checked, install
from coordinator.consumer_groups.client_side.preparing import computation_of
from coordinator.errors import RequestRefused
from coordinator.shard import Call, Shard
from protocol_codecs.experimental import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    ExperimentalErrorCode,
)


def serve(
    shard: Shard, request: ConsumerGroupInstallAssignmentRequest, _call: Call
) -> ConsumerGroupInstallAssignmentResponse:
    """Serve the request."""
    try:
        group, computation = computation_of(shard, request)
        prepared, parts = checked(computation.prepared, request)
    except RequestRefused as refused:
        return ConsumerGroupInstallAssignmentResponse(error_code=refused.code, error_message=refused.message)
    except InvalidAssignment as invalid:
        shard.activity.client_side_refusals += 1
        return ConsumerGroupInstallAssignmentResponse(
            error_code=ExperimentalErrorCode.INVALID_ASSIGNMENT, error_message=str(invalid)
        )
    install(shard, group, prepared, request, parts)
    return ConsumerGroupInstallAssignmentResponse()
