"""Loads the configuration and the policy: parses YAML, applies environment variables (``EPOCHGATE_…``), then checks
types, and what no type can express (``stream`` in ``assignors_allowed`` is refused).

All mistakes of a file are reported at once. Each names the file, the line, the key and what was expected.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

import msgspec
import yaml
from msgspec.structs import fields, replace

from protocol_codecs.classic_clients import OPTIONS, STREAMS, Refusal
from proxy.config.control import with_absolute_control, with_absolute_hook
from proxy.config.document import UNREADABLE, ConfigError, Document, KeyPath, dotted
from proxy.config.fleet import with_absolute_secrets
from proxy.config.identity import with_absolute_identity
from proxy.config.network import Listener, Upstream, with_absolute_admin
from proxy.config.regular_file import read_regular_file, unreadable
from proxy.config.schema import Config
from proxy.config.tls import with_absolute_paths
from translation.policy.policy import Policy

__all__ = ["ConfigError", "load_config", "load_policy", "parse_policy", "parse_policy_part", "read_config"]

T = TypeVar("T")

ENVIRONMENT_PREFIX = "EPOCHGATE_"
"""``EPOCHGATE_UPSTREAM__BOOTSTRAP=a:9092,b:9092`` overrides ``upstream.bootstrap``."""

MAX_FILE_BYTES = 1024 * 1024
"""Size limit of a configuration or policy; a policy of ten thousand rules takes half of it."""

_NO_UPSTREAM = Upstream(bootstrap=())
_NO_LISTENER = Listener(advertised_host="invalid", port=0, nodes={"0": 0})
"""Stand in for what is invalid, so that the rest can be checked."""


class ReadConfig(NamedTuple):
    """A configuration as far as it is valid, its document and what is wrong with it."""

    config: Config
    """Sections that are invalid have their defaults here."""
    document: Document
    problems: list[str]


def load_config(
    file: Path, environment: Mapping[str, str] = os.environ, *, folder: Path | None = None
) -> Config:
    """Read the configuration from a file and from the environment. Paths are relative to ``folder``, or to the file's.

    :raises ConfigError: it is invalid.
    """
    read = read_config(file, environment, folder=folder)
    if read.problems:
        raise ConfigError(*read.problems)
    return read.config


def read_config(
    file: Path, environment: Mapping[str, str] = os.environ, *, folder: Path | None = None
) -> ReadConfig:
    """Read the configuration as :func:`load_config` does, also if parts of it are invalid.

    :raises ConfigError: the file can't be read, or is no YAML, or no mapping.
    """
    document = Document(str(file), _read(file))
    is_empty = document.value is None and not document.unreadable
    if is_empty:
        document.value = {}
    if not isinstance(document.value, dict):
        raise ConfigError(*_problems(document, Config, document.value))
    found = _override(document, environment)
    if is_empty and not document.value:
        needed = " and ".join(f"`{field.encode_name}`" for field in fields(Config) if field.required)
        raise ConfigError(f"{file}: the file is empty; a configuration needs {needed}")
    valid = None if found else _converted(document, Config)
    if valid is None:
        found += _problems(document, Config, document.value)
    config = _valid_sections(document) if valid is None else valid
    misfits = config.misfits()
    try:
        config = _with_absolute_paths(config, folder or file.parent)
    except ValueError as error:  # a path is too long where it begins at the root
        misfits.append(str(error))
    return ReadConfig(config, document, found + [document.problem((), text) for text in misfits])


def _converted(document: Document, kind: type[T]) -> T | None:
    """The document as this type; None if it is none."""
    if document.unreadable:
        return None
    try:
        return msgspec.convert(document.value, kind)
    except msgspec.ValidationError:
        return None


def _problems(document: Document, kind: Any, value: Any, path: KeyPath = ()) -> list[str]:
    """Return all problems of a value (:func:`proxy.config.validation.problems`)."""
    from proxy.config import validation  # noqa: PLC0415 - only for what is invalid

    return validation.problems(document, kind, value, path)


def _valid_sections(document: Document) -> Config:
    valid: dict[str, Any] = {"upstream": _NO_UPSTREAM, "listeners": ()}
    for field in fields(Config):
        key = field.encode_name
        if key not in document.value:
            continue
        value = document.value[key]
        if not _problems(document, field.type, value, (key,)):
            valid[field.name] = msgspec.convert(value, field.type)
        elif key == "listeners" and isinstance(value, list):
            valid[key] = tuple(
                _NO_LISTENER
                if _problems(document, Listener, one, (key, number))
                else msgspec.convert(one, Listener)
                for number, one in enumerate(value)
            )
    return Config(**valid)


def _with_absolute_paths(config: Config, folder: Path) -> Config:
    """Resolve the paths of TLS files and secrets, which are relative to the configuration's folder."""
    listeners = tuple(
        replace(listener, tls=listener.tls and with_absolute_paths(listener.tls, folder))
        for listener in config.listeners
    )
    tls = config.upstream.tls
    upstream = replace(config.upstream, tls=tls and with_absolute_paths(tls, folder))
    fleet = config.fleet and with_absolute_secrets(config.fleet, folder)
    control = config.control and with_absolute_control(config.control, folder)
    hook = config.hook and with_absolute_hook(config.hook, folder)
    identity = config.identity and with_absolute_identity(config.identity, folder)
    return replace(
        config,
        listeners=listeners,
        upstream=upstream,
        admin=with_absolute_admin(config.admin, folder),
        fleet=fleet,
        control=control,
        hook=hook,
        identity=identity,
    )


def load_policy(file: Path) -> Policy:
    """Read a policy from a file.

    :raises ConfigError: it is invalid.
    """
    return parse_policy(str(file), _read(file))


def parse_policy(source: str, text: str) -> Policy:
    """Parse a policy; ``source`` names for people where it is from.

    :raises ConfigError: it is invalid.
    """
    return parse_policy_part(source, text)[0]


def parse_policy_part(source: str, text: str) -> tuple[Policy, frozenset[str]]:
    """Parse a policy that may be a part of one; also return which of its keys are given.

    :raises ConfigError: it is invalid.
    """
    document = Document(source, text)
    if document.value is None and not document.unreadable:
        return Policy(), frozenset()
    policy = _converted(document, Policy)
    if policy is None:
        raise ConfigError(*_problems(document, Policy, document.value))
    for number, name in enumerate(policy.assignors_allowed):
        if name == STREAMS:
            path: KeyPath = ("assignors_allowed", number)
            raise ConfigError(
                f"{document.where(path)} {dotted(path)}: `{STREAMS}` is Kafka Streams, which is never translated: "
                f"{OPTIONS[Refusal.STREAMS]}"
            )
    return policy, frozenset(document.value)


def _read(file: Path) -> str:
    try:
        return read_regular_file(file, MAX_FILE_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {unreadable(error)}") from None


def _override(document: Document, environment: Mapping[str, str]) -> list[str]:
    """Override values of the file by environment variables. Returns what is wrong with them.

    A name with ``__`` that is not a key is an error, since it can only be a mistake. A name without ``__`` is ignored
    unless it is a key: Kubernetes sets ``EPOCHGATE_PORT`` and the like for a service called epochgate.
    """
    found: list[str] = []
    for name, text in sorted(environment.items()):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        from proxy.config.validation import bare, hint_at, is_section  # noqa: PLC0415 - most have no such variable

        words = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        path: KeyPath = tuple(int(word) if word.isdigit() else word for word in words)
        hint = hint_at(Config, path)
        try:
            if get_origin(hint) is tuple and not is_section(bare(get_args(hint)[0])):
                _assign(document, name, path, _scalars(text))
            elif hint is not None and get_origin(hint) not in {tuple, dict} and not is_section(hint):
                _assign(document, name, path, _scalar(text))
            elif len(path) > 1:
                found.append(f"environment variable {name}: there is no key `{dotted(path)}` for one value")
        except ConfigError as error:
            found += error.problems
    return found


def _scalar(text: str) -> Any:
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, *UNREADABLE):
        return text
    return text if isinstance(value, dict | list) else value


def _scalars(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _assign(document: Document, name: str, path: KeyPath, value: Any) -> None:
    at: Any = document.value
    for n, step in enumerate(path[:-1]):
        if isinstance(step, int):
            if not isinstance(at, list) or step >= len(at):
                raise ConfigError(f"environment variable {name}: the file has no `{dotted(path[: n + 1])}`")
            at = at[step]
        else:
            if at.get(step) is None:
                at[step] = {}
            at = at[step]
        if not isinstance(at, dict | list):
            raise ConfigError(f"{document.where(path[: n + 1])} {dotted(path[: n + 1])}: expected a mapping")
    document.from_environment[path] = name
    document.unreadable.pop(path, None)
    at[path[-1]] = value
