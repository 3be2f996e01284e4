"""The last valid contents of the TLS files, kept for workers that are restarted.

Each worker reads the files itself and keeps its certificates when a file becomes invalid. A worker that is restarted
meanwhile has none to keep, so the supervisor sends it these; otherwise its share of the clients would be locked out.
"""

from collections.abc import Mapping
from pathlib import Path

import structlog

from proxy.config.schema import Config
from proxy.config.tls import ListenerTls, UpstreamTls, tls_files_of
from proxy.transport.tls_context import UPSTREAM, Contents, material, read_files
from proxy.transport.tls_errors import TlsFilesError

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.workers")


class LastGoodTls:
    """The TLS files of one configuration, reloadable by :class:`proxy.runtime.file_watcher.FileWatcher`.

    What ``before`` has of the same files for the same names is not read again.

    :raises TlsFilesError: a file is invalid at construction.
    """

    def __init__(self, config: Config, before: "LastGoodTls | None" = None) -> None:
        self._sections: dict[int, ListenerTls | UpstreamTls] = {
            n: listener.tls for n, listener in enumerate(config.listeners) if listener.tls is not None
        }
        if config.upstream.tls is not None:
            self._sections[UPSTREAM] = config.upstream.tls
        self._names = {n: listener.server_names for n, listener in enumerate(config.listeners)}
        self.contents: dict[int, Contents] = {}
        """The files' contents by index of the listener, or ``UPSTREAM``."""
        for n, tls in self._sections.items():
            known = None if before is None else before.of(tls, self._names.get(n))
            self.contents[n] = self._good(n) if known is None else known

    def of(self, tls: ListenerTls | UpstreamTls, names: Mapping[str, int | None] | None) -> Contents | None:
        """Return the contents of these files, which are good for these server names; None if it has none."""
        same = (n for n in self._sections if (self._sections[n], self._names.get(n)) == (tls, names))
        return next((self.contents[n] for n in same), None)

    @property
    def files(self) -> tuple[Path, ...]:
        """The paths of all TLS files."""
        return tuple(file for tls in self._sections.values() for file in tls_files_of(tls).values())

    def reload(self, why: str) -> None:
        """Read the files again; keep the old contents of those that are invalid now, which the workers report too."""
        for n in self._sections:
            try:
                self.contents[n] = self._good(n)
            except TlsFilesError as error:
                _log.warning(
                    "restarted workers will get the previous certificates", why=why, reason=str(error)
                )

    def _good(self, n: int) -> Contents:
        contents = read_files(self._sections[n])
        material(self._sections[n], contents, names=self._names.get(n, {}))
        return contents
