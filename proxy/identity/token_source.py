"""Gets delegation tokens for connections, one question to the brokers for all that wait for the same principal's, and
expires them at the end.

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
_END_S = 4.0
"""Seconds past the drain's grace for answers under way and to expire all tokens. What is left ends by itself. A
supervisor kills a worker 5 s after the grace, and a pod ends 10 s after it."""

_EXPIRES_EVERY_S = 1.0

_EXPIRED_TOGETHER = 16
"""As many as the account has connections for it: a token that waits for its turn is not too late yet."""


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
        metrics.identity_principals.set_function(lambda: store.principals_with_token)
        self._asked: dict[str, trio.Event] = {}
        self._nursery: trio.Nursery | None = None
        self._throttle = LogThrottle()
        self._turns = trio.CapacityLimiter(_EXPIRED_TOGETHER)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Ask for tokens, and expire those that have no use any more, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            while True:
                await trio.sleep(_EXPIRES_EVERY_S)
                self._count_dropped()
                while (token := self._store.next_to_expire(trio.current_time())) is not None:
                    await self._expire(token)

    def connected(self, principal: str) -> None:
        """A connection of this principal begins.

        :raises TokenRefused: there is no room for another principal.
        """
        self._store.connected(principal, trio.current_time())

    def disconnected(self, principal: str) -> None:
        """It has ended."""
        self._store.disconnected(principal)

    async def credentials_of(self, principal: str) -> Token:
        """Return the token of a principal that is connected, and wait for it if none lives. The caller sets a deadline.

        :raises TokenRefused: there is none.
        """
        now = trio.current_time()
        token = self._store.usable(principal, now)
        if self._store.is_due(principal, now):
            try:
                self._begin(principal, now)
            except TokenRefused:
                if token is None:
                    raise
        if token is not None:
            return token
        await self._asked[principal].wait()
        return self._store.outcome(principal, trio.current_time())

    def useless(self, credentials: Credentials) -> None:
        """Brokers do not know this token; see :meth:`TokenStore.useless`."""
        if isinstance(credentials, Token):
            self._store.useless(credentials)

    def account_replaced(self) -> None:
        """Ask at once for principals that were refused: another account may have the rights."""
        self._store.forget_refusals()

    async def expire_all(self, spare_s: float) -> None:
        """Expire every token at the brokers, as far as time allows; nobody may ask for one any more.

        ``spare_s`` are the seconds that the drain has left of its grace.

        Answers that are on their way are waited for: tokens that nobody has read would live on.
        """
        taken: list[Token] = []
        expired: list[Token] = []

        async def expire(token: Token) -> None:
            if await self._expire(token):
                expired.append(token)

        with trio.move_on_after(spare_s + _END_S):
            async with trio.open_nursery() as nursery:
                while True:
                    for token in self._store.take_all(trio.current_time()):
                        taken.append(token)
                        nursery.start_soon(expire, token)
                    if not self._asked:
                        break
                    await next(iter(self._asked.values())).wait()
        self._count_dropped()
        await self._account.aclose()
        if taken:
            _log.info("delegation tokens expired", tokens=len(expired), not_expired=len(taken) - len(expired))

    def _begin(self, principal: str, now: float) -> None:
        """Have a token asked for.

        :raises TokenRefused: too many are asked for already.
        """
        if self._nursery is None:
            raise RuntimeError("the source of tokens does not run")
        wait_s = self._store.ask(principal, now)
        self._asked[principal] = trio.Event()
        self._nursery.start_soon(self._ask, principal, wait_s)

    async def _ask(self, principal: str, wait_s: float) -> None:
        try:
            await trio.sleep(wait_s)
            self._store.made(await self._create(principal))
            self._metrics.identity_tokens.labels("created").inc()
        except TokenRefused as error:
            self._refused(principal, str(error), "refused", is_final=True)
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

    def _refused(self, principal: str, why: str, result: str, *, is_final: bool = False) -> None:
        self._store.refused(principal, why, trio.current_time(), is_final=is_final)
        self._metrics.identity_tokens.labels(result).inc()
        if (suppressed := self._throttle.suppressed(why)) is not None:
            _log.warning(
                "no delegation token", principal=f"User:{principal}", reason=why, suppressed=suppressed
            )

    async def _expire(self, token: Token) -> bool:
        """Expire a token at the brokers; return whether they said so. Counts it in any case, also if cancelled."""
        is_expired = False
        try:
            async with self._turns:
                await self._account.expire(token)
            is_expired = True
        except AccountError as error:
            self._warn_of_tokens_left(str(error))
        finally:
            self._metrics.identity_tokens.labels("expired" if is_expired else "not_expired").inc()
        return is_expired

    def _count_dropped(self) -> None:
        if dropped := self._store.take_dropped():
            self._metrics.identity_tokens.labels("not_expired").inc(dropped)
            self._warn_of_tokens_left("more tokens lost their use than could be expired")

    def _warn_of_tokens_left(self, reason: str) -> None:
        if (suppressed := self._throttle.suppressed("expire")) is not None:
            _log.warning(
                "a delegation token could not be expired; it ends by itself",
                reason=reason,
                suppressed=suppressed,
            )
