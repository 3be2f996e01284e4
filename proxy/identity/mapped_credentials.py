"""The file from principals of certificates to SASL credentials (`identity.mapped_file`), for clusters without tokens.

It is read again when it changes. A file that can't be used is refused, and the one before stays. No message shows a
value of it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from proxy.config.document import ConfigError, Document
from proxy.config.regular_file import read_regular_file, unreadable
from proxy.config.section import Section
from proxy.config.validation import problems
from proxy.identity.credentials import Credentials
from proxy.identity.token_store import TokenRefused
from proxy.metrics.registry import Metrics
from proxy.metrics.reload_report import ReloadReport

_MOST_BYTES = 4 * 1024 * 1024
_WHERE = "identity.mapped_file"


class MappedUser(Section, frozen=True, kw_only=True):
    """The credentials of one principal."""

    username: str
    password: str
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"] = "SCRAM-SHA-512"


def read_mapped(file: str) -> dict[str, Credentials]:
    """Read the file: credentials by the name of a principal (without ``User:``).

    :raises ConfigError: it can't be read, or has mistakes; each is named with its line and key, without its value.
    """
    try:
        document = Document(file, read_regular_file(Path(file), _MOST_BYTES).decode())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {unreadable(error)}") from None
    value = {} if document.value is None else document.value
    found: list[str] = []
    for path in document.unreadable:
        document.unreadable[path] = document.problem(path, "given twice, or not a text; put texts in quotes")
    for name, entry in value.items() if isinstance(value, dict) else ():
        found += _hidden(document, name, entry)
    found += problems(document, dict[str, MappedUser], value)
    if found:
        raise ConfigError(*found)
    users = msgspec.convert(value, dict[str, MappedUser])
    return {name: Credentials(one.mechanism, one.username, one.password) for name, one in users.items()}


def _hidden(document: Document, name: str, entry: Any) -> list[str]:
    """Name values of the wrong type here, and take them out: what names them elsewhere shows numbers."""
    found = []
    for key, item in entry.items() if isinstance(entry, dict) else ():
        path = (name, key)
        if not isinstance(item, str) and path not in document.unreadable:
            found.append(document.problem(path, "expected a text in quotes"))
            entry[key] = "PLAIN"
    return found


class MappedCredentials:
    """The credentials of one process: none before :meth:`prepare`."""

    def __init__(self, metrics: Metrics) -> None:
        self._file: str | None = None
        self._report = ReloadReport(metrics, _WHERE, "mapped credentials")
        self._users: dict[str, Credentials] = {}

    @property
    def files(self) -> tuple[Path, ...]:
        """The file, if there is one; see :class:`proxy.runtime.file_watcher.Reloadable`."""
        return () if self._file is None else (Path(self._file),)

    def prepare(self, file: str | None) -> Callable[[], None]:
        """Read this file, and return what uses it for the authentications from then on.

        If the same file has been read again meanwhile, what was read then stays.

        :raises ConfigError: see :func:`read_mapped`.
        """
        users, before = {} if file is None else read_mapped(file), self._users

        def use() -> None:
            if file == self._file and self._users is not before:
                return
            if file is not None or self._file is not None:
                self._report.begun()
            self._file, self._users = file, users

        return use

    def connected(self, principal: str) -> None:
        """A connection of this principal begins."""

    def disconnected(self, principal: str) -> None:
        """It has ended."""

    async def credentials_of(self, principal: str) -> Credentials:
        """Return the credentials of a principal.

        :raises TokenRefused: the file has none.
        """
        found = self._users.get(principal)
        if found is None:
            raise TokenRefused("`identity.mapped_file` has no credentials for it")
        return found

    def useless(self, credentials: Credentials) -> None:
        """Brokers refuse these credentials; only the file can change that."""

    def reload(self, why: str) -> None:
        """Read the file again, for the authentications from now on."""
        if self._file is None:
            return
        try:
            self._users = read_mapped(self._file)
        except ConfigError as error:
            self._report.refused(why, str(error))
            return
        self._report.applied(why, principals=len(self._users))
