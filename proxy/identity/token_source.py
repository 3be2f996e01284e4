"""Gets delegation tokens for connections: one question to the brokers for all that wait for the same principal's.

The trio shell of :mod:`proxy.identity.token_store`. Questions are asked in a task of the process, so that a client that
goes away takes no token from others that wait for it.
"""

from typing import Protocol

import structlog
import trio

from proxy.identity.account_connections import AccountError
from proxy.identity.credentials import Credentials, Token
from proxy.identity.token_store import TokenRefused, TokenStore
from proxy.metrics.registry import Metrics
from proxy.runtime.log_throttle import LogThrottle

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.identity")

_TRIES_S = 5.0
"""Seconds in which an account that can't ask tries again: a controller that fails over takes about as long."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 1.0
_EXPIRED_AT_ONCE = 4
_DRAIN_S = 5.0
"""Seconds that a drain waits for answers under way, and then to expire all tokens; what is left ends by itself."""

_EXPIRES_EVERY_S = 1.0


class Account(Protocol):
    """Makes and expires tokens, as :class:`proxy.identity.token_account.TokenAccount` does."""

    async def create(self, owner: str) -> Token:
        """Make a token for a principal of type ``User``."""
        ...

    async def expire(self, token: Token) -> None:
        """End a token."""
        ...

    async def aclose(self) -> None:
        """Close its connections."""
        ...


class TokenSource:
    """See the module. :meth:`run` has to run while tokens are asked for."""

    def __init__(self, store: TokenStore, account: Account, metrics: Metrics) -> None:
        self._store = store
        self._account = account
        self._metrics = metrics
        self._asked: dict[str, trio.Event] = {}
        self._nursery: trio.Nursery | None = None
        self._throttle = LogThrottle()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Ask for tokens, and expire those that have no use any more, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            while True:
                await trio.sleep(_EXPIRES_EVERY_S)
                while (token := self._store.next_to_expire()) is not None:
                    await self._expire(token)

    def connected(self, principal: str) -> None:
        """A connection of this principal begins.

        :raises TokenRefused: there is no room for another principal.
        """
        self._store.connected(principal, trio.current_time())
        self._metrics.identity_principals.set(len(self._store))

    def disconnected(self, principal: str) -> None:
        """It has ended."""
        self._store.disconnected(principal)

    async def credentials_of(self, principal: str) -> Token:
        """Return the token of a principal that is connected, and wait for it if there is none.

        :raises TokenRefused: there is none.
        """
        token = self._store.usable(principal, trio.current_time())
        if token is not None:
            return token
        if not self._store.is_asked_for(principal):
            if self._nursery is None:
                raise RuntimeError("the source of tokens does not run")
            wait_s = self._store.ask(principal, trio.current_time())
            self._asked[principal] = trio.Event()
            self._nursery.start_soon(self._ask, principal, wait_s)
        await self._asked[principal].wait()
        return self._store.outcome(principal, trio.current_time())

    def useless(self, credentials: Credentials) -> None:
        """Brokers do not know this token; see :meth:`TokenStore.useless`."""
        if isinstance(credentials, Token):
            self._store.useless(credentials)

    async def expire_all(self) -> None:
        """Expire every token at the brokers, as far as they can be reached; nobody may ask for one any more.

        Answers that are on their way are waited for: tokens that nobody has read would live on.
        """
        with trio.move_on_after(_DRAIN_S):
            while self._asked:
                await next(iter(self._asked.values())).wait()
        tokens = self._store.take_all(trio.current_time())
        limiter = trio.CapacityLimiter(_EXPIRED_AT_ONCE)

        async def expire(token: Token) -> None:
            async with limiter:
                await self._expire(token)

        with trio.move_on_after(_DRAIN_S) as in_time:
            async with trio.open_nursery() as nursery:
                for token in tokens:
                    nursery.start_soon(expire, token)
        await self._account.aclose()
        if tokens:
            _log.info("delegation tokens expired", tokens=len(tokens), in_time=not in_time.cancelled_caught)

    async def _ask(self, principal: str, wait_s: float) -> None:
        try:
            await trio.sleep(wait_s)
            self._store.made(await self._create(principal))
            self._metrics.identity_tokens.labels("created").inc()
        except TokenRefused as error:
            self._refused(principal, str(error), "refused")
        except AccountError as error:
            self._refused(principal, str(error), "failed")
        except Exception as error:  # noqa: BLE001  a bug must not leave connections waiting
            self._metrics.internal_errors.labels("connection").inc()
            _log.error("a token could not be asked for", exc_info=error)
            self._refused(principal, "an internal error", "failed")
        finally:
            self._asked.pop(principal).set()

    async def _create(self, principal: str) -> Token:
        """Ask until the broker has answered, within a bound.

        :raises TokenRefused: the broker refuses.
        :raises AccountError: it could not be asked in time.
        """
        give_up_at = trio.current_time() + _TRIES_S
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return await self._account.create(principal)
            except AccountError:
                if trio.current_time() + pause_s > give_up_at:
                    raise
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _refused(self, principal: str, why: str, result: str) -> None:
        self._store.refused(principal, why, trio.current_time())
        self._metrics.identity_tokens.labels(result).inc()
        if (suppressed := self._throttle.suppressed(why)) is not None:
            _log.warning(
                "no delegation token", principal=f"User:{principal}", reason=why, suppressed=suppressed
            )

    async def _expire(self, token: Token) -> None:
        try:
            await self._account.expire(token)
            self._metrics.identity_tokens.labels("expired").inc()
        except AccountError as error:
            self._metrics.identity_tokens.labels("not_expired").inc()
            if (suppressed := self._throttle.suppressed("expire")) is not None:
                _log.warning(
                    "a delegation token could not be expired; it ends by itself",
                    reason=str(error),
                    suppressed=suppressed,
                )
