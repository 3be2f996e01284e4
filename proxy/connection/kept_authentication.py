"""Authenticates a connection that speaks for a client again, before its SASL session ends (KIP-368)."""

import random
from collections.abc import Callable

import trio

from proxy.connection.connection_deps import Speaker
from proxy.connection.disconnect_cause import DisconnectCause
from proxy.connection.session_shell import SessionShell
from proxy.session.errors import ClientError, NoPrincipalError
from proxy.session.session import ClientSession

_SOONEST_S = 1.2
"""Brokers refuse an authentication within a second of the last one."""

_EARLIEST, _LATEST = 0.75, 0.85
"""When: at these parts of a session's lifetime, spread so that connections of one token do not do so together."""

_PAUSE_S = 1.0


async def keep_authenticated(
    session: ClientSession,
    shell: SessionShell,
    speaker: Speaker,
    lifetime_s: float | None,
    end: Callable[[DisconnectCause, str], None],
) -> None:
    """Authenticate again each time that the session's lifetime is about to end, until cancelled.

    If the proxy may not speak for the client any more it is asked again until the session ends; that ends the
    connection. If the client's certificate has expired, the connection ends at once.
    """
    while lifetime_s is not None:
        ends_at = trio.current_time() + lifetime_s
        part = random.uniform(_EARLIEST, _LATEST)  # noqa: S311  jitter
        await trio.sleep(max(_SOONEST_S, lifetime_s * part))
        while True:
            try:
                mechanism, tokens = await speaker.login()
                break
            except ClientError as error:
                if isinstance(error, NoPrincipalError) or trio.current_time() + _PAUSE_S >= ends_at:
                    end(DisconnectCause.SESSION_EXPIRED, str(error))
                    return
            await trio.sleep(_PAUSE_S)
        done = trio.Event()
        lifetimes: list[float | None] = []

        def on_done(
            session_s: float | None,
            pause_s: float,
            done: trio.Event = done,
            lifetimes: list[float | None] = lifetimes,
        ) -> None:
            lifetimes.append(session_s)
            speaker.authenticated_again(pause_s)
            done.set()

        session.reauthenticate(mechanism, tokens, on_done)
        shell.advance()
        await done.wait()
        lifetime_s = speaker.lifetime_of(lifetimes[0])
