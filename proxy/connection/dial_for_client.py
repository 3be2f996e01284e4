"""Opens the upstream connection of a client that the proxy speaks for, as long as that client waits for it."""

from collections.abc import Callable

import trio

from proxy.connection.connection_deps import Speaker
from proxy.session.errors import ClientError, UpstreamError
from proxy.transport.dialer import Dialed, UnreachableError

_CHECKED_EVERY_S = 0.25


async def dial_for_client(
    speaker: Speaker, node_id: int | None, peer_closed: Callable[[], bool], owes_only_versions: bool
) -> Dialed | None:
    """Return the connection that ``speaker`` opens; None if the client has gone meanwhile, so that it has no use.

    A client that has gone counts only if it has sent nothing but ApiVersions (``owes_only_versions``). Other requests
    are for the broker, whether or not the client reads the answers: records without acks, a LeaveGroup.

    :raises UnreachableError: as ``speaker`` does.
    :raises ClientError: as ``speaker`` does.
    :raises UpstreamError: as ``speaker`` does.
    """
    if not owes_only_versions:
        return await speaker.dial(node_id)
    dialed: Dialed | None = None
    failed: UnreachableError | ClientError | UpstreamError | None = None

    async def cancel_when_the_client_has_gone() -> None:
        while not peer_closed():  # noqa: ASYNC110  only the kernel knows, behind bytes that are not read now
            await trio.sleep(_CHECKED_EVERY_S)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_when_the_client_has_gone)
        try:
            dialed = await speaker.dial(node_id)
        except (UnreachableError, ClientError, UpstreamError) as error:
            failed = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed
    return dialed
