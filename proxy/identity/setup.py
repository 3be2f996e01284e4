"""Makes what speaks for clients with certificates from the configuration, and checks the files that it names."""

from collections.abc import Callable
from pathlib import Path

import trio

from proxy.config.document import ConfigError, KeyPath
from proxy.config.fleet import UnreadableSecret
from proxy.config.identity import Identity, IdentityMode
from proxy.config.network import Listener
from proxy.config.regular_file import read_regular_file, unreadable
from proxy.config.schema import Config
from proxy.identity.client_certificate import CertificatePrincipals
from proxy.identity.credentials import Credentials
from proxy.identity.mapped_credentials import MappedCredentials, read_mapped
from proxy.identity.principal_rules import BadRules, PrincipalRules
from proxy.identity.speaker import CertificateListener, CertificateSpeaker
from proxy.identity.spoken_for import BadPattern, SpokenFor, patterns
from proxy.identity.token_account import TokenAccount
from proxy.identity.token_source import TokenSource
from proxy.identity.token_store import TokenLimits, TokenStore
from proxy.metrics.registry import Metrics
from proxy.transport.dialer import Dialer

_MOST_SECRET_BYTES = 64 * 1024


class Identities:
    """All listeners of one process whose clients the proxy speaks for.

    :raises UnreadableSecret: a file is not there or has mistakes, or a pattern can't be used.
    """

    def __init__(self, config: Config, dialer: Dialer, metrics: Metrics) -> None:
        if (found := identity_problems(config)) or config.identity is None:
            raise UnreadableSecret("\n".join(text for _, text in found))
        section = config.identity
        modes = {listener.identity for listener in config.listeners}
        spoken_for = SpokenFor(section.allow, section.deny)
        self.mapped: MappedCredentials | None = None
        """Has to be reloaded when its file changes."""
        self._tokens: TokenSource | None = None
        if IdentityMode.MAPPED in modes and section.mapped_file is not None:
            self.mapped = MappedCredentials(section.mapped_file, metrics)
        if IdentityMode.DELEGATION_TOKEN in modes:
            self._tokens = _token_source(section, dialer, metrics)
        self._listeners = {
            number: self._of(listener, spoken_for, dialer, metrics)
            for number, listener in enumerate(config.listeners)
            if listener.speaks_for_clients
        }

    def _of(
        self, listener: Listener, spoken_for: SpokenFor, dialer: Dialer, metrics: Metrics
    ) -> CertificateListener:
        principals = CertificatePrincipals(PrincipalRules(listener.principal_mapping_rules))
        source = self._tokens if listener.identity is IdentityMode.DELEGATION_TOKEN else self.mapped
        assert source is not None  # noqa: S101  the constructor has made it
        return CertificateListener(source, principals, spoken_for, dialer, metrics)

    def identify_at(self, number: int) -> Callable[[trio.abc.Stream], CertificateSpeaker | None] | None:
        """Return what tells who speaks for a client of this listener; None if its clients do so themselves."""
        listener = self._listeners.get(number)
        return None if listener is None else listener.identify

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Ask for tokens until cancelled."""
        if self._tokens is None:
            task_status.started()
            return
        await self._tokens.run(task_status)

    async def end(self, spare_s: float) -> None:
        """Expire all tokens; no client is authenticated from now on. ``spare_s``: what the drain left of its time."""
        if self._tokens is not None:
            await self._tokens.expire_all(spare_s)


def identity_problems(config: Config) -> list[tuple[KeyPath, str]]:
    """Return what is wrong with the patterns and files of the configuration, each with its key."""
    found: list[tuple[KeyPath, str]] = []
    for number, listener in enumerate(config.listeners):
        try:
            PrincipalRules(listener.principal_mapping_rules)
        except BadRules as error:
            found.append((("listeners", number, "principal_mapping_rules"), str(error)))
    section = config.identity
    if section is None:
        return found
    for key, texts in (("allow", section.allow), ("deny", section.deny)):
        try:
            patterns(texts)
        except BadPattern as error:
            found.append((("identity", key), str(error)))
    if section.account is not None:
        try:
            _password(section.account.password_file)
        except UnreadableSecret as error:
            found.append((("identity", "account", "password_file"), str(error)))
    if section.mapped_file is not None:
        try:
            read_mapped(section.mapped_file)
        except ConfigError as error:
            found += ((("identity", "mapped_file"), line) for line in error.problems)
    return found


def _token_source(section: Identity, dialer: Dialer, metrics: Metrics) -> TokenSource:
    account = section.account
    assert account is not None  # noqa: S101  the configuration was checked
    credentials = Credentials(account.mechanism, account.username, _password(account.password_file))

    made = TokenAccount(
        lambda: dialer.dial(None),
        credentials,
        section.token_mechanism,
        section.max_lifetime_ms,
        trio.current_time,
    )
    limits = TokenLimits(section.principals, section.tokens_per_s)
    return TokenSource(TokenStore(limits, 0.0), made, metrics)


def _password(file: str) -> str:
    """:raises UnreadableSecret: the file can't be read, or is empty. The message does not show it."""
    try:
        password = read_regular_file(Path(file), _MOST_SECRET_BYTES).decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableSecret(f"{file}: {unreadable(error)}") from None
    if not password:
        raise UnreadableSecret(f"{file}: has no password")
    return password
