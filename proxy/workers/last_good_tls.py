"""The files of TLS as they were when they could last be used.

Workers read the files themselves, and keep what they have when a file turns bad. One that is started again meanwhile
has nothing to keep: the supervisor gives it this, so that a bad file does not shut out a part of the clients.
"""

from pathlib import Path

import structlog

from proxy.config.schema import Config
from proxy.config.tls import ListenerTls, UpstreamTls, files_of
from proxy.transport.tls_context import UPSTREAM, Contents, TlsFilesError, material, read_files

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")


class LastGoodTls:
    """All of one configuration; to be reloaded when the files change (:class:`proxy.config.file_watcher.FileWatch`).

    :raises TlsFilesError: a file can't be used now.
    """

    def __init__(self, config: Config) -> None:
        self._sections: dict[int, ListenerTls | UpstreamTls] = {
            n: listener.tls for n, listener in enumerate(config.listeners) if listener.tls is not None
        }
        if config.upstream.tls is not None:
            self._sections[UPSTREAM] = config.upstream.tls
        self.contents: dict[int, Contents] = {n: _good(tls) for n, tls in self._sections.items()}
        """What was in the files of each listener, by its number, and of the upstream side."""

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them."""
        return tuple(file for tls in self._sections.values() for file in files_of(tls))

    def reload(self, why: str) -> None:
        """Keep what the files have now, where it can be used; that it can't be used elsewhere the workers say."""
        for n, tls in self._sections.items():
            try:
                self.contents[n] = _good(tls)
            except TlsFilesError as error:
                _log.warning("workers to come get the certificates from before", why=why, reason=str(error))


def _good(tls: ListenerTls | UpstreamTls) -> Contents:
    contents = read_files(tls)
    material(tls, contents)
    return contents
