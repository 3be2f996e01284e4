"""When a delegation token is made, shared and replaced: one a principal, within ``identity.principals`` and
``tokens_per_s``. Sans-IO.

Theory of operation. A connection gets its principal's token as long as it lives. If there is none, or less than a fifth
of its life is left, one is asked for, once for all connections (:mod:`proxy.identity.token_source`); they wait for it
only if none lives. A token is replaced and never renewed: renewing needs no right on its owner any more, so a withdrawn
right would count for a day. The one before stays at the broker until it ends, since sessions rest on it, and is
remembered here so that a drain can expire it.

Everything is bounded: principals (the one that is idle for the longest makes room, and its token is expired), tokens
made in a second, how often a refused principal is asked for again, and tokens that wait to be expired.
"""

from collections import deque

import msgspec

from proxy.identity.credentials import Token

REFUSED_FOR_S, LONGEST_REFUSED_S = 5.0, 300.0
"""Seconds for which a refusal counts: a client that connects again and again is not asked for each time. They double
each time that the broker refuses the principal, up to the second number."""

LONGEST_WAIT_S = 5.0
"""Seconds that a creation may wait for its turn."""

_LIFE_BEFORE_REPLACEMENT = 0.8


class TokenRefused(Exception):
    """There is no token for a principal; the message says why, and does not name the principal."""


class TokenLimits(msgspec.Struct, frozen=True):
    """Bounds. ``most_principals`` have a token here, and ``creations_per_s`` are made at most."""

    most_principals: int
    creations_per_s: float


class _Principal(msgspec.Struct):
    token: Token | None = None
    connections: int = 0
    is_asked_for: bool = False
    refused_until: float = 0.0
    refusal: str = ""
    refusals: int = 0


class TokenStore:
    """See the module. All times are seconds of one clock that never goes back."""

    def __init__(self, limits: TokenLimits, now: float) -> None:
        self._limits = limits
        self._principals: dict[str, _Principal] = {}
        self._idle: dict[str, None] = {}  # those without a connection, the idlest first
        self._replaced: deque[Token] = deque()
        self._to_expire: deque[Token] = deque()
        self._dropped = 0
        self._allowance, self._allowance_at = max(1.0, limits.creations_per_s), now

    def __len__(self) -> int:
        return len(self._principals)

    @property
    def principals_with_token(self) -> int:
        """How many principals have a token here."""
        return sum(one.token is not None for one in list(self._principals.values()))

    # -- connections ---------------------------------------------------------------------------------------

    def connected(self, owner: str, now: float) -> None:
        """A connection of this principal begins.

        :raises TokenRefused: there is no room for another principal.
        """
        principal = self._principals.get(owner)
        if principal is None:
            self._make_room()
            principal = self._principals[owner] = _Principal()
        self._idle.pop(owner, None)
        principal.connections += 1
        self._forget_ended(now)

    def disconnected(self, owner: str) -> None:
        """A connection that :meth:`connected` was called for has ended."""
        if (principal := self._principals.get(owner)) is not None:
            principal.connections -= 1
            if not principal.connections:
                self._idle[owner] = None

    def _make_room(self) -> None:
        if len(self._principals) < self._limits.most_principals:
            return
        for owner in self._idle:
            one = self._principals[owner]
            if not one.is_asked_for:
                del self._principals[owner], self._idle[owner]
                if one.token is not None:
                    self._has_no_use(one.token)
                return
        raise TokenRefused(f"{self._limits.most_principals} principals (`identity.principals`) are connected")

    # -- tokens --------------------------------------------------------------------------------------------

    def usable(self, owner: str, now: float) -> Token | None:
        """Return the principal's token while it lives; None if the next one has to be waited for.

        :raises TokenRefused: none lives, and the next one was refused a moment ago.
        """
        principal = self._known(owner)
        token = principal.token
        if token is not None and now < token.expires_at:
            return token
        if now < principal.refused_until:
            raise TokenRefused(principal.refusal)
        return None

    def is_due(self, owner: str, now: float) -> bool:
        """Whether a token is to be asked for: there is none, or one that is about to end."""
        principal = self._known(owner)
        if principal.is_asked_for or now < principal.refused_until:
            return False
        token = principal.token
        return token is None or now >= token.made_at + _LIFE_BEFORE_REPLACEMENT * _life(token)

    def is_asked_for(self, owner: str) -> bool:
        """Whether a token is on its way."""
        return self._principals[owner].is_asked_for

    def ask(self, owner: str, now: float) -> float:
        """Note that a token is asked for; return after how many seconds the request may be sent.

        :raises TokenRefused: too many wait for theirs already.
        """
        rate = self._limits.creations_per_s
        self._allowance = min(max(1.0, rate), self._allowance + (now - self._allowance_at) * rate) - 1.0
        self._allowance_at = now
        wait_s = max(0.0, -self._allowance / rate)
        if wait_s > LONGEST_WAIT_S:
            self._allowance += 1.0
            raise TokenRefused("more tokens are needed at once than `identity.tokens_per_s` allows")
        self._principals[owner].is_asked_for = True
        return wait_s

    def made(self, token: Token) -> None:
        """The broker has made the token that was asked for."""
        principal = self._principals.get(token.owner)
        if principal is None:  # all were taken meanwhile
            self._has_no_use(token)
            return
        principal.is_asked_for = False
        principal.refused_until = 0.0
        principal.refusals = 0
        if principal.token is not None:
            self._replaced.append(principal.token)
            if len(self._replaced) > self._limits.most_principals:
                self._has_no_use(self._replaced.popleft())
        principal.token = token

    def refused(self, owner: str, why: str, now: float, *, is_final: bool) -> None:
        """There is no token: the broker refuses it (``is_final``), or could not be asked.

        A final refusal costs nothing of the allowance: principals that the account may not speak for take no tokens
        from the others. They are asked for more and more rarely instead.
        """
        principal = self._principals.get(owner)
        if principal is None:  # all were taken meanwhile
            return
        principal.is_asked_for = False
        wait_s = REFUSED_FOR_S
        if is_final:
            self._allowance += 1.0
            wait_s = min(REFUSED_FOR_S * 2.0**principal.refusals, LONGEST_REFUSED_S)
            principal.refusals += wait_s < LONGEST_REFUSED_S
        principal.refused_until, principal.refusal = now + wait_s, why

    def forget_refusals(self) -> None:
        """Ask at once for principals that were refused: another account may have the rights."""
        for principal in self._principals.values():
            principal.refused_until, principal.refusals = 0.0, 0

    def outcome(self, owner: str, now: float) -> Token:
        """Return the token that was asked for, or the one before as long as that lives.

        :raises TokenRefused: there is neither.
        """
        return self._old_or_refused(self._known(owner), now)

    def useless(self, token: Token) -> None:
        """Brokers do not know this token (any more): the next one who looks gets none."""
        principal = self._principals.get(token.owner)
        if principal is not None and principal.token is token:
            principal.token = None
            self._has_no_use(token)

    def _known(self, owner: str) -> _Principal:
        known = self._principals.get(owner)
        if known is None:
            raise TokenRefused("the proxy ends")
        return known

    @staticmethod
    def _old_or_refused(principal: _Principal, now: float) -> Token:
        token = principal.token
        if token is None or now >= token.expires_at:
            raise TokenRefused(principal.refusal or "its token has ended")
        return token

    # -- their end -----------------------------------------------------------------------------------------

    def _has_no_use(self, token: Token) -> None:
        self._to_expire.append(token)
        if len(self._to_expire) > self._limits.most_principals:
            self._to_expire.popleft()
            self._dropped += 1

    def next_to_expire(self, now: float) -> Token | None:
        """Return a token that lives, has no use any more, and is to be expired at the broker; None if there is none."""
        while self._to_expire:
            token = self._to_expire.popleft()
            if now < token.expires_at:
                return token
        return None

    def take_dropped(self) -> int:
        """Return how many tokens waited in vain to be expired since the last call; they end by themselves."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def take_all(self, now: float) -> list[Token]:
        """Return all tokens that still live, in order to expire them. The store is empty then."""
        known = [one.token for one in self._principals.values() if one.token is not None]
        found = [*known, *self._replaced, *self._to_expire]
        self._principals.clear()
        self._idle.clear()
        self._replaced.clear()
        self._to_expire.clear()
        return [token for token in found if now < token.expires_at]

    def _forget_ended(self, now: float) -> None:
        while self._replaced and self._replaced[0].expires_at <= now:
            self._replaced.popleft()


def _life(token: Token) -> float:
    return token.expires_at - token.made_at
