"""Makes what speaks for clients with certificates from the ``identity`` section, and checks the files that it
names.
"""

from collections.abc import Callable, Mapping
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
from proxy.identity.speaker import CertificateListener, CertificateSpeaker, Source
from proxy.identity.spoken_for import BadPattern, SpokenFor, patterns
from proxy.identity.token_account import TokenAccount
from proxy.identity.token_source import TokenSource
from proxy.identity.token_store import TokenLimits, TokenStore
from proxy.metrics.registry import Metrics
from proxy.metrics.reload_report import ReloadReport
from proxy.runtime.file_watcher import Reloadable
from proxy.transport.dialer import Dialer

_MOST_SECRET_BYTES = 64 * 1024


class Identities:
    """All listeners of one process whose clients the proxy speaks for.

    :raises UnreadableSecret: a file is not there or has mistakes, or a pattern can't be used.
    """

    def __init__(self, config: Config, dialer: Dialer, metrics: Metrics) -> None:
        self._dialer, self._metrics = dialer, metrics
        self._mapped = MappedCredentials(metrics)
        section = _checked(config)
        self._account = None if section.account is None else _Account(section, dialer, metrics)
        self._listeners: dict[int, CertificateListener] = {}
        self.prepare(config)()

    @property
    def reloadables(self) -> tuple[Reloadable, ...]:
        """What has to be reloaded when its files change; they stay the same."""
        return (self._mapped,) if self._account is None else (self._mapped, self._account)

    def prepare(self, config: Config, listeners: Mapping[int, Listener] | None = None) -> Callable[[], None]:
        """Read all that a configuration says of identities, and return what puts it in force, which can't fail.

        ``listeners`` are those of ``config`` by the numbers that :meth:`identify_at` gets; without them, in its order.
        Clients that are connected keep their principals.

        :raises UnreadableSecret: see the class; nothing has changed.
        """
        section = _checked(config)
        try:
            mapped = self._mapped.prepare(section.mapped_file)
        except ConfigError as error:
            raise UnreadableSecret(str(error)) from None
        account = None if self._account is None else self._account.prepare(section)
        spoken_for = SpokenFor(section.allow, section.deny)
        numbered = dict(enumerate(config.listeners)) if listeners is None else listeners
        spoken = {number: one for number, one in numbered.items() if one.speaks_for_clients}
        principals = {
            number: CertificatePrincipals(PrincipalRules(one.principal_mapping_rules))
            for number, one in spoken.items()
        }

        def put_in_force() -> None:
            mapped()
            if account is not None:
                account()
            self._listeners = {
                number: CertificateListener(
                    self._source_of(one), principals[number], spoken_for, self._dialer, self._metrics
                )
                for number, one in spoken.items()
            }

        return put_in_force

    def _source_of(self, listener: Listener) -> Source:
        if listener.identity is IdentityMode.MAPPED:
            return self._mapped
        assert self._account is not None  # noqa: S101  the configuration was checked
        return self._account.tokens

    def identify_at(self, number: int) -> Callable[[trio.abc.Stream], CertificateSpeaker | None]:
        """Return what tells who speaks for a client of this listener, by what is in force when it is called.

        That is None if its clients speak for themselves.
        """

        def identify(stream: trio.abc.Stream) -> CertificateSpeaker | None:
            listener = self._listeners.get(number)
            return None if listener is None else listener.identify(stream)

        return identify

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Ask for tokens until cancelled."""
        if self._account is None:
            task_status.started()
            return
        await self._account.tokens.run(task_status)

    async def end(self, spare_s: float) -> None:
        """Expire all tokens; no client is authenticated from now on. ``spare_s``: what the drain left of its time."""
        if self._account is not None:
            await self._account.tokens.expire_all(spare_s)


def _checked(config: Config) -> Identity:
    """:raises UnreadableSecret: see :class:`Identities`."""
    if (found := identity_problems(config)) or config.identity is None:
        raise UnreadableSecret("\n".join(text for _, text in found))
    return config.identity


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


class _Account:
    """The source of tokens by `identity.account`, whose password is read again when its file changes.

    :raises UnreadableSecret: the password can't be used.
    """

    def __init__(self, section: Identity, dialer: Dialer, metrics: Metrics) -> None:
        self._section, self._credentials = section, _credentials(section)
        self._account = TokenAccount(
            lambda: dialer.dial(None),
            self._credentials,
            section.token_mechanism,
            section.max_lifetime_ms,
            trio.current_time,
        )
        limits = TokenLimits(section.principals, section.tokens_per_s)
        self.tokens = TokenSource(TokenStore(limits, 0.0), self._account, metrics)
        self._report = ReloadReport(metrics, "identity.account", "credentials of the account")

    @property
    def files(self) -> tuple[Path, ...]:
        """The password's; see :class:`proxy.runtime.file_watcher.Reloadable`."""
        return () if self._section.account is None else (Path(self._section.account.password_file),)

    def reload(self, why: str) -> None:
        """Read the password again, for the connections from now on."""
        try:
            self.prepare(self._section)()
        except UnreadableSecret as error:
            self._report.refused(why, str(error))
        else:
            self._report.applied(why)

    def prepare(self, section: Identity) -> Callable[[], None]:
        """Read the password, and return what puts the section in force.

        :raises UnreadableSecret: see the class.
        """
        credentials, before = _credentials(section), self._credentials

        def put_in_force() -> None:
            if section.account != self._section.account or self._credentials is before:
                self._credentials = credentials
                self._report.begun()  # else the same file has been read again meanwhile
            self._section = section
            self._account.use(self._credentials, section.token_mechanism, section.max_lifetime_ms)
            self.tokens.account_replaced()

        return put_in_force


def _credentials(section: Identity) -> Credentials:
    """:raises UnreadableSecret: the password can't be used."""
    account = section.account
    assert account is not None  # noqa: S101  only a restart takes it away
    return Credentials(account.mechanism, account.username, _password(account.password_file))


def _password(file: str) -> str:
    """:raises UnreadableSecret: the file can't be read, or is empty. The message does not show it."""
    try:
        password = read_regular_file(Path(file), _MOST_SECRET_BYTES).decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableSecret(f"{file}: {unreadable(error)}") from None
    if not password:
        raise UnreadableSecret(f"{file}: has no password")
    return password
