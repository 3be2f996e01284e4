"""Watches the ConfigMaps that the policy is mounted from (``policy.config_map``, ``config_maps``), because kubelet
updates the files only after a minute; the files count again while the Kubernetes API is away.

There are two sources of one policy then, and the file is the older one: it may turn up with contents that the
Kubernetes API has replaced already. So it is not read while the API is watched, nor shortly after. It is read at the
start, and again when the API was out of reach for longer than kubelet takes.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import structlog
import trio

from protocol_codecs.policy_manifest import MANIFEST, digest_of
from proxy.config.loader import ConfigError, parse_policy
from proxy.config.policy_source import LoadedPolicy, is_policy_file
from proxy.metrics.registry import Metrics
from proxy.reload.config_map_watch import Contents
from proxy.reload.policy_reloader import PolicyReloader

FILE_IS_CURRENT_AFTER_S = 120.0
"""Seconds after which a mounted file surely has what the API said last: kubelet syncs every minute, and may cache
for another."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.policy")


class PolicyWatch:
    """Decides which of the two sources the policy is taken from.

    It is told of the file as a :class:`proxy.runtime.file_watcher.Reloadable`, and of the ConfigMap as a
    :class:`proxy.reload.config_map_watch.Watcher`.
    """

    def __init__(
        self,
        config_map: str | None,
        file: Path,
        reloader: PolicyReloader,
        metrics: Metrics,
        *,
        labels: str = "",
    ) -> None:
        """Watch the policy of one ConfigMap, or without a name that of the set with these ``labels``."""
        self._name = config_map
        self._config_map = labels if config_map is None else config_map
        self._file = file
        self._reloader = reloader
        self._metrics = metrics
        self._seen: Mapping[str, Contents] | None = None
        """What the API said last. None: nothing yet, or the file was read since."""
        self._lost_at: float | None = None
        """When the API went out of reach; None while it is watched."""
        self._reason = ""

    @property
    def files(self) -> tuple[Path, ...]:
        """The mounted policy file or directory."""
        return (self._file,)

    def reload(self, why: str) -> None:
        """Read the mounted file, unless the API is where the policy comes from."""
        if self._seen is not None:
            _log.info("policy file not read, its ConfigMap is watched at the Kubernetes API", why=why)
            return
        self._reloader.reload(why)

    def found(self, maps: Mapping[str, Contents]) -> None:
        """Apply the policy of the ConfigMaps if it is not the one that was seen last, or refuse it."""
        self._lost_at = None
        if self._reason or self._seen is None:
            self._reason = ""
            _log.info("policy is watched at the Kubernetes API", config_map=self._config_map)
        if maps == self._seen:
            return
        self._seen = dict(maps)
        if self._name is None:
            self._reloader.take(partial(self._policy_of_set, self._seen), "its ConfigMaps changed")
        else:
            self._reloader.take(partial(self._policy, self._seen), "the ConfigMap changed")

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

    def _policy(self, maps: Mapping[str, Contents]) -> LoadedPolicy:
        place = f"ConfigMap {self._config_map}, key {self._file.name}"
        text = maps.get(self._name or "", {}).get(self._file.name)
        if text is None:
            raise ConfigError(f"{place}: not there")
        return LoadedPolicy(parse_policy(place, text), digest_of({self._file.name: text.encode()}))

    def _policy_of_set(self, maps: Mapping[str, Contents]) -> LoadedPolicy:
        """The policy that the files in all ConfigMaps are together.

        A set is always under way in pieces, so only its manifest can say that it is whole.
        """
        source = f"ConfigMaps with {self._config_map}"
        files: dict[str, bytes] = {}
        found_in: dict[str, str] = {}
        for name, contents in sorted(maps.items()):
            for key, text in contents.items():
                if key in files:
                    raise ConfigError(f"{source}: {key} is in both {found_in[key]} and {name}")
                if is_policy_file(key):
                    files[key], found_in[key] = text.encode(), name
        if MANIFEST not in files:
            raise ConfigError(f"{source}: no {MANIFEST} among them")
        return self._reloader.of_files(source, files)
