"""Loads the policy from where the configuration says: one file, or a directory whose files are one policy together
(``policy.file``, ``manifest_required``).

The ``*.yaml`` of a directory count in the order of their names. They are taken as a whole or not at all: a directory
may be seen while somebody copies into it, so it is read until two readings agree, and the previous policy stays if one
of its files is bad. A manifest (:mod:`protocol_codecs.policy_manifest`) names the files that belong together, with the
digest of each, so that a set of which a part is missing or older is refused.
"""

import fnmatch
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from protocol_codecs.foreign import Undecodable, decode_text
from protocol_codecs.policy_manifest import MANIFEST, decode_manifest, digest, digest_of, is_generated
from proxy.config.loader import MAX_FILE_BYTES, ConfigError, parse_policy_part
from proxy.config.regular_file import read_regular_file, unreadable
from proxy.config.schema import Config
from translation.policy.policy import Mode, Policy, Rule, Waves

MOST_FILES = 256
"""Files of one policy."""
MOST_BYTES = 16 * 1024 * 1024
"""Bytes of all files of one policy."""

_PATTERN = "*.yaml"
_READINGS = 5


class LoadedPolicy(NamedTuple):
    """A policy, with one digest over the names and contents of its files."""

    policy: Policy
    digest: str
    left_out: tuple[str, ...] = ()
    """Generated files that the manifest does not name: of an older set, or of one that is being copied."""


def load_policy_from(source: Path, *, manifest_required: bool = False) -> LoadedPolicy:
    """Read a policy from a file or a directory.

    :raises ConfigError: it is invalid, or can't be read, or keeps changing.
    """
    if not source.is_dir():
        if manifest_required:
            raise ConfigError(
                f"{source}: not a directory, so it has no {MANIFEST}, which the configuration demands"
            )
        content = _read(source)
        return LoadedPolicy(_parsed(str(source), content).policy, digest_of({source.name: content}))
    return policy_of_files(str(source), _stable(source), manifest_required=manifest_required)


def policy_of(config: Config, config_file: Path) -> Policy:
    """Load the policy that the configuration names; its path is relative to the configuration's folder.

    :raises ConfigError: it is invalid.
    """
    source = policy_path(config, config_file)
    if source is None:
        return Policy()
    return load_policy_from(source, manifest_required=config.policy.manifest_required).policy


def policy_path(config: Config, config_file: Path) -> Path | None:
    """Return the configured policy file or directory, or None; it is relative to the configuration's folder."""
    return None if config.policy.file is None else config_file.parent / config.policy.file


def is_policy_file(name: str) -> bool:
    """Whether a directory's entry, or a key of a ConfigMap, is a file of the policy or its manifest."""
    return name == MANIFEST or (fnmatch.fnmatchcase(name, _PATTERN) and not name.startswith("."))


def policy_of_files(
    source: str, files: Mapping[str, bytes], *, manifest_required: bool = False
) -> LoadedPolicy:
    """The policy that these files are together, by name; ``source`` names for people where they are from.

    :raises ConfigError: one of them is bad, or they do not fit their manifest or each other.
    """
    if sum(map(len, files.values())) > MOST_BYTES:
        raise ConfigError(f"{source}: its files have more than {MOST_BYTES} bytes together")
    named = {name: content for name, content in files.items() if name != MANIFEST}
    left_out: tuple[str, ...] = ()
    if MANIFEST in files:
        left_out = _check(source, files[MANIFEST], named, manifest_required=manifest_required)
        named = {name: content for name, content in named.items() if name not in left_out}
    elif manifest_required:
        raise ConfigError(f"{source}: no {MANIFEST}, which the configuration demands")
    return LoadedPolicy(_joined(source, named), digest_of(named), left_out)


def _check(
    source: str, manifest: bytes, files: Mapping[str, bytes], *, manifest_required: bool
) -> tuple[str, ...]:
    """Compare the files with their manifest; return those that it does not name, and that nobody wrote by hand."""
    try:
        promised = decode_manifest(manifest)
    except Undecodable as error:
        raise ConfigError(f"{source}/{MANIFEST}: not a manifest: {error}") from None
    for name, expected in sorted(promised.files.items()):
        if name not in files:
            raise ConfigError(f"{source}/{name}: not there, and {MANIFEST} names it")
        if digest(files[name]) != expected:
            raise ConfigError(
                f"{source}/{name}: not the file that {MANIFEST} names: its digest is another one"
            )
    if digest_of({name: files[name] for name in promised.files}) != promised.digest:
        raise ConfigError(f"{source}/{MANIFEST}: its digest is not that of the files that it names")
    others = sorted(files.keys() - promised.files.keys())
    by_hand = [name for name in others if not is_generated(files[name])]
    if by_hand and manifest_required:
        raise ConfigError(f"{source}/{by_hand[0]}: not named by {MANIFEST}, which the configuration demands")
    return tuple(name for name in others if name not in by_hand)


def _joined(source: str, files: Mapping[str, bytes]) -> Policy:
    default, waves = Mode.OBSERVE, Waves()
    said_by: dict[str, str] = {}
    rules: list[Rule] = []
    allowed: dict[str, None] = {}
    problems: list[str] = []
    for name, content in sorted(files.items()):
        try:
            part, given = _parsed(f"{source}/{name}", content)
        except ConfigError as error:
            problems += error.problems
            continue
        for key in given & {"default", "waves"}:
            if key in said_by:
                problems.append(f"{source}/{name}: `{key}` is given by {said_by[key]} already")
            said_by[key] = name
        if said_by.get("default") == name:
            default = part.default
        if said_by.get("waves") == name:
            waves = part.waves
        rules += part.rules
        allowed.update(dict.fromkeys(part.assignors_allowed))
    if problems:
        raise ConfigError(*problems)
    try:
        return Policy(default=default, waves=waves, rules=tuple(rules), assignors_allowed=tuple(allowed))
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None


class _Part(NamedTuple):
    policy: Policy
    given: frozenset[str]


def _parsed(source: str, content: bytes) -> _Part:
    try:
        return _Part(*parse_policy_part(source, decode_text(content)))
    except Undecodable as error:
        raise ConfigError(f"{source}: can't be read: {error}") from None


def _stable(folder: Path) -> dict[str, bytes]:
    """The files of a directory, once two readings agree.

    Kubernetes replaces all files of a mounted ConfigMap at once, by a symbolic link, but between two of them.
    """
    before = _reading(folder)
    for _ in range(_READINGS):
        after = _reading(folder)
        if after == before:
            return after
        before = after
    raise ConfigError(f"{folder}: its files change while they are read")


def _reading(folder: Path) -> dict[str, bytes]:
    try:
        names = sorted(entry.name for entry in folder.iterdir() if is_policy_file(entry.name))
    except OSError as error:
        raise ConfigError(f"{folder}: {unreadable(error)}") from None
    if len(names) > MOST_FILES:
        raise ConfigError(f"{folder}: {len(names)} files, more than {MOST_FILES}")
    files: dict[str, bytes] = {}
    left = MOST_BYTES
    for name in names:
        files[name] = _read(folder / name)
        left -= len(files[name])
        if left < 0:
            raise ConfigError(f"{folder}: its files have more than {MOST_BYTES} bytes together")
    return files


def _read(file: Path) -> bytes:
    try:
        return read_regular_file(file, MAX_FILE_BYTES)
    except OSError as error:
        raise ConfigError(f"{file}: {unreadable(error)}") from None
