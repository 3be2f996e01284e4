"""InitProducerId (22), v0 to v5: gives ids to idempotent producers. Transactional producers are refused."""

from coordinator.broker.context import RequestScope
from protocol_codecs.all_messages import InitProducerIdRequest, InitProducerIdResponse
from protocol_codecs.error_code import ErrorCode


async def serve(context: RequestScope, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Serve the request."""
    if request.transactional_id is not None:
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED  # final for every client
        return InitProducerIdResponse(error_code=error, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=context.cluster.new_producer_id())
