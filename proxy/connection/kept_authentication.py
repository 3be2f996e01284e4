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
_PAUSE = 0.2
"""For how long other credentials are waited for before the next try: this part of what is left of the session, and at
least so many seconds. With less left than that the connection ends, before the broker ends it."""


async def keep_authenticated(
    session: ClientSession,
    shell: SessionShell,
    speaker: Speaker,
    lifetime_s: float | None,
    end: Callable[[DisconnectCause, str], None],
) -> None:
    """Authenticate again each time that the session's lifetime is about to end, until cancelled.

    Credentials that end with the session would not prolong it. If there are no others, or the proxy may not speak for
    the client any more, it is asked again until the session ends; that ends the connection. If the client's certificate
    has expired, the connection ends at once.
    """
    while lifetime_s is not None:
        ends_at = trio.current_time() + lifetime_s
        part = random.uniform(_EARLIEST, _LATEST)  # noqa: S311  jitter
        await trio.sleep(max(_SOONEST_S, lifetime_s * part))
        while True:
            is_final = False
            try:
                mechanism, tokens = await speaker.login()
                lasts_s = speaker.lifetime_of(None)
                if lasts_s is None or trio.current_time() + lasts_s > ends_at:
                    break
                why = "its credentials end, and there are no others"
            except ClientError as error:
                why, is_final = str(error), isinstance(error, NoPrincipalError)
            left_s = ends_at - trio.current_time()
            if is_final or left_s <= _PAUSE_S:
                end(DisconnectCause.SESSION_EXPIRED, why)
                return
            await trio.sleep(min(max(_PAUSE_S, left_s * _PAUSE), left_s - _PAUSE_S / 2))
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
