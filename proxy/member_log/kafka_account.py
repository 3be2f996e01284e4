"""The Kafka account of ``fleet.kafka`` (``kafka_files``, ``kafka_environment``): its user and password are exchanged
while its clients work.

Processes that read lag, write the journal and read the member log connect again at once. The member log's producer
stays connected, since another one would give up what is under way: it authenticates with the new credentials when its
session at the broker ends (``connections.max.reauth.ms``) or it connects again.
"""

import os
from collections.abc import Callable
from pathlib import Path

from proxy.config.fleet import CREDENTIALS, Fleet, UnreadableSecret, kafka_properties
from proxy.config.schema import Config
from proxy.metrics.registry import Metrics
from proxy.metrics.reload_report import ReloadReport
from proxy.runtime.file_watcher import Reloadable


class KafkaAccount:
    """The account of one process. Its files are read again when they change.

    :raises UnreadableSecret: see :func:`proxy.config.fleet.kafka_properties`.
    """

    def __init__(self, fleet: Fleet, metrics: Metrics) -> None:
        self._fleet = fleet
        self.properties = kafka_properties(fleet, os.environ)
        """Those of librdkafka that are in force: changed in place, for whoever starts a client with them."""
        self.on_change: list[Callable[[], None]] = []
        """Is called after that, for clients that work already."""
        self._report = ReloadReport(metrics, "fleet.kafka", "credentials of the account")
        self._report.begun()

    @property
    def files(self) -> tuple[Path, ...]:
        """Those of `kafka_files`; see :class:`proxy.runtime.file_watcher.Reloadable`."""
        return tuple(map(Path, (self._fleet.kafka_files or {}).values()))

    def reload(self, why: str) -> None:
        """Read the files again; unless all of them can be used, nothing changes."""
        try:
            self._prepare(self._fleet)()
        except UnreadableSecret as error:
            self._report.refused(why, str(error))
        else:
            self._report.applied(why)

    @property
    def reloadables(self) -> tuple[Reloadable, ...]:
        """Itself."""
        return (self,)

    def prepare(self, config: Config, listeners: object = None) -> Callable[[], None]:  # noqa: ARG002  as identities
        """Read what a configuration says of the account, and return what puts it in force, which can't fail.

        :raises UnreadableSecret: see the class; or properties differ that only a restart changes. No value is named.
        """
        assert config.fleet is not None  # noqa: S101  only a restart takes it away
        return self._prepare(config.fleet)

    def _prepare(self, fleet: Fleet) -> Callable[[], None]:
        new, before = kafka_properties(fleet, os.environ), dict(self.properties)
        changed = {
            name for name in new.keys() | self.properties.keys() if new.get(name) != self.properties.get(name)
        }
        if fixed := sorted(changed - CREDENTIALS):
            raise UnreadableSecret(f"`fleet.kafka`: {', '.join(fixed)} changed, which needs a restart")

        def put_in_force() -> None:
            if fleet == self._fleet and self.properties != before:
                return  # the same files have been read again meanwhile
            self._fleet = fleet
            self._report.begun()
            if changed:
                self.properties.update(new)
                for call in self.on_change:
                    call()

        return put_in_force
