"""The configuration that is in force, as ``/api/config`` shows it: without the values that may be secrets."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from proxy.config.schema import Config

HIDDEN = "(hidden)"
_SHOWN = frozenset(
    {
        "bootstrap.servers", "compression.type", "metadata.broker.list", "sasl.mechanism", "sasl.mechanisms",
        "security.protocol", "ssl.ca.location",
    }
)  # fmt: skip
"""Properties of `fleet.kafka` that are no secret for certain."""


class ConfigView(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration that is in force, with defaults and after the environment; paths were relative to `folder`.

    Values that may be secrets are `(hidden)`, and listed in `hidden`: those of `fleet.kafka` but for a few, and what
    follows the host in `hook.url`. Files with secrets are named and never read for this.
    """

    folder: str
    config: dict[str, Any]
    hidden: tuple[str, ...]


def config_view(config: Config, folder: Path) -> ConfigView:
    """Return what may be shown of a configuration."""
    shown, hidden = without_secrets(config)
    return ConfigView(folder=str(folder), config=msgspec.to_builtins(shown), hidden=hidden)


def without_secrets(config: Config) -> tuple[Config, tuple[str, ...]]:
    """Return the configuration with other values in place of those that may be secrets, and the keys of these."""
    hidden = []
    if config.fleet is not None:
        kafka = config.fleet.kafka
        names = [name for name in kafka if name not in _SHOWN]
        hidden += [f"fleet.kafka.{name}" for name in names]
        config = replace(config, fleet=replace(config.fleet, kafka=kafka | dict.fromkeys(names, HIDDEN)))
    if config.hook is not None and config.hook.target != "/":
        hidden.append("hook.url")
        config = replace(config, hook=replace(config.hook, url=f"{config.hook.shown}/{HIDDEN}"))
    return config, tuple(hidden)
