"""Watches the ConfigMap that the policy file is mounted from, because kubelet updates the file only after a minute.

There are two sources of one policy then, and the file is the older one: it may turn up with contents that the
Kubernetes API has replaced already. So it is not read while the API is watched, nor shortly after. It is read at the
start, and again when the API was out of reach for longer than kubelet takes.
"""

from pathlib import Path

import structlog
import trio

from proxy.config.loader import ConfigError, parse_policy
from proxy.kubernetes.config_map_watch import Contents
from proxy.metrics.registry import Metrics
from proxy.server.policy_reloader import PolicyReloader
from translation.policy.policy import Policy

FILE_IS_CURRENT_AFTER_S = 120.0
"""Seconds after which a mounted file surely has what the API said last: kubelet syncs every minute, and may cache
for another."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.policy")


class PolicyWatch:
    """Decides which of the two sources the policy is taken from.

    It is told of the file as a :class:`proxy.config.file_watcher.Reloadable`, and of the ConfigMap as a
    :class:`proxy.kubernetes.config_map_watch.Watcher`.
    """

    def __init__(self, config_map: str, file: Path, reloader: PolicyReloader, metrics: Metrics) -> None:
        self._config_map = config_map
        self._file = file
        self._reloader = reloader
        self._metrics = metrics
        self._seen: Contents | None = None
        """What the API said last. None: nothing yet, or the file was read since."""
        self._lost_at: float | None = None
        """When the API went out of reach; None while it is watched."""
        self._reason = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """The mounted policy file."""
        return (self._file,)

    def reload(self, why: str) -> None:
        """Read the mounted file, unless the API is where the policy comes from."""
        if self._seen is not None:
            _log.info("policy file not read, its ConfigMap is watched at the Kubernetes API", why=why)
            return
        self._reloader.reload(why)

    def found(self, contents: Contents | None) -> None:
        """Apply the policy of the ConfigMap if it is not the one that was seen last, or refuse it."""
        self._lost_at = None
        if self._reason or self._seen is None:
            self._reason = ""
            _log.info("policy is watched at the Kubernetes API", config_map=self._config_map)
        if contents is None:
            contents = {}
        if contents == self._seen:
            return
        self._seen = dict(contents)
        self._reloader.take(self._policy, "the ConfigMap changed")

    def lost(self, reason: str) -> None:
        """Go on with the policy in force; read the file if the API was out of reach for long."""
        self._metrics.policy_watch_failures.inc()
        now = trio.current_time()
        if self._lost_at is None:
            self._lost_at = now
        if reason != self._reason:
            self._reason = reason
            _log.warning(
                "policy is not watched at the Kubernetes API", config_map=self._config_map, reason=reason
            )
        if self._seen is not None and now - self._lost_at >= FILE_IS_CURRENT_AFTER_S:
            self._seen = None
            self._reloader.reload("the Kubernetes API is out of reach, so the mounted file is read")

    def _policy(self) -> Policy:
        place = f"ConfigMap {self._config_map}, key {self._file.name}"
        text = (self._seen or {}).get(self._file.name)
        if text is None:
            raise ConfigError(f"{place}: not there")
        return parse_policy(place, text)
