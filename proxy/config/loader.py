"""Loads the configuration and the policy: parses YAML, applies environment variables, then checks types.

Every mistake raises :class:`ConfigError`, which names the file, the line, the key and what was expected.
"""

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import inspect
from msgspec.structs import replace
from yaml.composer import ComposerError

from protocol_codecs.classic_clients import OPTIONS, STREAMS, Refusal
from proxy.config.control import with_absolute_control, with_absolute_hook
from proxy.config.fleet import with_absolute_secrets
from proxy.config.regular_file import read_regular_file
from proxy.config.schema import Config
from proxy.config.tls import with_absolute_paths
from translation.policy.policy import Policy

T = TypeVar("T")
KeyPath = tuple[str | int, ...]

ENVIRONMENT_PREFIX = "EPOCHGATE_"
"""``EPOCHGATE_UPSTREAM__BOOTSTRAP=a:9092,b:9092`` overrides ``upstream.bootstrap``."""

_MSGSPEC_PATH = re.compile(r" - at (?:`key` in )?`\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.(?P<key>[^.\[\]]+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<key>[^`]+)`")
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, ValueError)
"""Errors that PyYAML raises, besides its own, for an invalid date or a value that does not fit its tag."""

MAX_FILE_BYTES = 1024 * 1024
"""Size limit of a configuration or policy; a policy of ten thousand rules takes half of it."""
_MAX_SCALAR_CHARS = 65_536
_MAX_DEPTH = 32
"""Limit of nesting; the configuration has five levels."""

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C has a tenth of the cost; PyYAML may have been built without it."""

_CONTAINER_TYPES = (inspect.StructType, inspect.VarTupleType, inspect.DictType)


class ConfigError(Exception):
    """A file or an environment variable is invalid; the message says where and why, for a person."""


class _Document:
    """A YAML document as plain values, with the position of each.

    It is read at bounded cost: no aliases (a few hundred bytes of them can expand to gigabytes), limited depth. It is
    made of the parser's events, without a tree in between, since whoever reads a large policy serves nobody meanwhile.
    """

    def __init__(self, source: str, text: str) -> None:
        self.source = source
        self.marks: dict[KeyPath, yaml.Mark] = {}
        self.from_environment: dict[KeyPath, str] = {}
        try:
            self.value: Any = self._only_document(_Parser(text))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise ConfigError(f"{source}:{_position(mark)} not valid YAML: {error.problem}") from None
        except yaml.YAMLError as error:
            raise ConfigError(f"{source}: not valid YAML: {' '.join(str(error).split())}") from None

    def _only_document(self, parser: Any) -> Any:
        parser.get_event()  # the stream begins
        if parser.check_event(yaml.StreamEndEvent):
            return None
        parser.get_event()  # the document begins
        value = self._plain(parser, parser.get_event(), ())
        parser.get_event()
        if not parser.check_event(yaml.StreamEndEvent):
            raise ComposerError(None, None, "another document begins", parser.get_event().start_mark)
        return value

    def _plain(self, parser: Any, event: Any, path: KeyPath, depth: int = 1) -> Any:
        start: Any = event.start_mark
        self.marks.setdefault(path, start)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(parser, event, path)
        if isinstance(event, yaml.AliasEvent):
            problem = f"the alias *{event.anchor}: aliases are not supported; write the value out"
            raise ComposerError(None, None, problem, start)
        if depth > _MAX_DEPTH:
            raise ComposerError(None, None, "too deeply nested", start)
        if isinstance(event, yaml.SequenceStartEvent):
            values: list[Any] = []
            while not isinstance(item := parser.get_event(), yaml.SequenceEndEvent):
                values.append(self._plain(parser, item, (*path, len(values)), depth + 1))
            return values
        value: dict[str, Any] = {}
        while not isinstance(at := parser.get_event(), yaml.MappingEndEvent):
            mark: Any = at.start_mark
            if not isinstance(at, yaml.ScalarEvent):
                raise ComposerError(None, None, "a key that is no text", mark)
            key = at.value
            if key in value:
                raise ConfigError(f"{self.source}:{_position(mark)} {_dotted((*path, key))}: given twice")
            self.marks[*path, key] = mark
            value[key] = self._plain(parser, parser.get_event(), (*path, key), depth + 1)
        return value

    def _scalar(self, parser: Any, event: Any, path: KeyPath) -> Any:
        if len(event.value) > _MAX_SCALAR_CHARS:  # a long number can take hours to parse
            place = _position(event.start_mark)
            problem = f"a value of {len(event.value)} characters, more than {_MAX_SCALAR_CHARS}"
            raise ConfigError(f"{self.source}:{place} {_dotted(path)}: {problem}")
        if event.tag is None and not event.implicit[0]:
            return event.value  # in quotes
        tag = event.tag
        if tag is None or tag == "!":
            tag = parser.resolve(yaml.ScalarNode, event.value, event.implicit)
        node = yaml.ScalarNode(tag, event.value, event.start_mark, event.start_mark)
        try:
            return parser.construct_object(node)
        except _UNREADABLE:
            place, kind = _position(event.start_mark), tag.rpartition(":")[2]
            problem = f"not a valid {kind}: {event.value!r} (put text in quotes)"
            raise ConfigError(f"{self.source}:{place} {_dotted(path)}: {problem}") from None

    def where(self, path: KeyPath) -> str:
        """Return the place of a key: file, line and column, or the environment variable that set it."""
        for length in range(len(path), -1, -1):
            if (name := self.from_environment.get(path[:length])) is not None:
                return f"environment variable {name}:"
            if (mark := self.marks.get(path[:length])) is not None:
                return f"{self.source}:{_position(mark)}"
        return f"{self.source}:"


def _position(mark: yaml.Mark | None) -> str:
    return "" if mark is None else f"{mark.line + 1}:{mark.column + 1}:"


def _dotted(path: KeyPath) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".") or "the document"


def load_config(file: Path, environment: Mapping[str, str] = os.environ) -> Config:
    """Read the configuration from a file and from the environment.

    :raises ConfigError: it is invalid.
    """
    document = _Document(str(file), _read(file))
    if document.value is None:
        document.value = {}
    if isinstance(document.value, dict):
        _override(document, environment)
    try:
        return _with_absolute_paths(_typed(document, Config), file.parent)
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from None


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
    return replace(config, listeners=listeners, upstream=upstream, fleet=fleet, control=control, hook=hook)


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
    document = _Document(source, text)
    if document.value is None:
        return Policy(), frozenset()
    policy = _typed(document, Policy)
    for number, name in enumerate(policy.assignors_allowed):
        if name == STREAMS:
            path: KeyPath = ("assignors_allowed", number)
            raise ConfigError(
                f"{document.where(path)} {_dotted(path)}: `{STREAMS}` is Kafka Streams, which is never translated: "
                f"{OPTIONS[Refusal.STREAMS]}"
            )
    return policy, frozenset(document.value)


def _read(file: Path) -> str:
    try:
        return read_regular_file(file, MAX_FILE_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: can't be read: {error}") from None


def _typed(document: _Document, kind: type[T]) -> T:
    try:
        return msgspec.convert(document.value, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(document, kind, str(error))) from None


def _explain(document: _Document, kind: type, message: str) -> str:
    """Turn msgspec's message, which ends in a path, into place, key and expectation."""
    path: KeyPath = ()
    if (match := _MSGSPEC_PATH.search(message)) is not None:
        message = message[: match.start()]
        steps = (step for step in _STEP.finditer(match["path"]) if step["key"] or step["index"])
        path = tuple(step["key"] or int(step["index"]) for step in steps)
    if (unknown := _UNKNOWN_FIELD.match(message)) is not None:
        path = (*path, unknown["key"])
        message = _unknown_key(unknown["key"], _type_at(kind, path[:-1]))
    else:
        message = message[:1].lower() + message[1:]
        expected = _type_at(kind, path)
        if isinstance(expected, inspect.EnumType):
            message += f"; {_one_of(expected.cls)}"
        elif isinstance(expected, inspect.LiteralType):
            message += f"; {_one_of(expected.values)}"
    return f"{document.where(path)} {_dotted(path)}: {message}"


def _unknown_key(key: str, info: Any) -> str:
    known = [field.encode_name for field in info.fields] if isinstance(info, inspect.StructType) else []
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean `{close[0]}`? " if close else ""
    return f"unknown key; {hint}{_one_of(known)}"


def _one_of(values: Iterable[object]) -> str:
    return f"expected one of {', '.join(f'`{value}`' for value in values)}"


def _type_at(kind: type, path: KeyPath) -> Any:
    """Return msgspec's description of a key's type; None if there is no such key."""
    info: Any = inspect.type_info(kind)
    for step in path:
        if isinstance(info, inspect.StructType):
            info = next((field.type for field in info.fields if field.encode_name == step), None)
        elif isinstance(info, inspect.VarTupleType) and isinstance(step, int):
            info = info.item_type
        else:
            return None
        info = _bare(info)
    return info


def _bare(info: Any) -> Any:
    """Return the type without its metadata, and without `null` as an alternative."""
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        others = [one for one in info.types if not isinstance(one, inspect.NoneType)]
        sections = [one for one in others if isinstance(one, inspect.StructType)]
        if sections:
            return sections[0]
        return _bare(others[0]) if len(others) == 1 else info
    return info


def _override(document: _Document, environment: Mapping[str, str]) -> None:
    """Override values of the file by environment variables.

    A name with ``__`` that is not a key is an error, since it can only be a mistake. A name without ``__`` is ignored
    unless it is a key: Kubernetes sets ``EPOCHGATE_PORT`` and the like for a service called epochgate.
    """
    for name, text in sorted(environment.items()):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        words = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        path: KeyPath = tuple(int(word) if word.isdigit() else word for word in words)
        info = _type_at(Config, path)
        if isinstance(info, inspect.VarTupleType) and not isinstance(info.item_type, inspect.StructType):
            _assign(document, name, path, _scalars(text))
        elif info is not None and not isinstance(info, _CONTAINER_TYPES):
            _assign(document, name, path, _scalar(text))
        elif len(path) > 1:
            raise ConfigError(f"environment variable {name}: there is no key `{_dotted(path)}` for one value")


def _scalar(text: str) -> Any:
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, *_UNREADABLE):
        return text
    return text if isinstance(value, dict | list) else value


def _scalars(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _assign(document: _Document, name: str, path: KeyPath, value: Any) -> None:
    at: Any = document.value
    for n, step in enumerate(path[:-1]):
        if isinstance(step, int):
            if not isinstance(at, list) or step >= len(at):
                raise ConfigError(f"environment variable {name}: the file has no `{_dotted(path[: n + 1])}`")
            at = at[step]
        else:
            if at.get(step) is None:
                at[step] = {}
            at = at[step]
        if not isinstance(at, dict | list):
            raise ConfigError(f"{document.where(path[: n + 1])} {_dotted(path[: n + 1])}: expected a mapping")
    document.from_environment[path] = name
    at[path[-1]] = value
