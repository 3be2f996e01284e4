"""A YAML document as plain values, with the place of each, and the problems that were found while it was read."""

import itertools
import re
from typing import Any

import yaml
from yaml.composer import ComposerError

KeyPath = tuple[str | int, ...]

UNREADABLE = (ArithmeticError, AttributeError, LookupError, ValueError)
"""Errors that PyYAML raises, besides its own, for an invalid date or a value that does not fit its tag."""

_MAX_SCALAR_CHARS = 65_536
_MAX_DEPTH = 32
"""Limit of nesting; the configuration has five levels."""

_MOST_PROBLEMS = 50
"""Problems that one error lists."""

_SECTION = re.compile(r"^[a-z_]+:(?=\s|$)", re.MULTILINE)
_MOST_SECTIONS = 50
"""A document that is no YAML, and has more, is not read section by section: each costs a reading of what is before."""

_NAMED = re.compile(r"`(?P<key>[A-Za-z_][\w.\[\]-]*)`(?P<colon>: )?")
_PARTS = re.compile(r"(?P<key>[^.\[\]]+)|\[(?P<index>\d+)\]")

_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C has a tenth of the cost; PyYAML may have been built without it."""


class ConfigError(Exception):
    """A file or an environment variable is invalid.

    Each of its ``problems`` is a line for people that names the place, the key and what was expected.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        """All problems, one a line."""
        more = len(self.problems) - _MOST_PROBLEMS
        shown = self.problems[:_MOST_PROBLEMS]
        return "\n".join((*shown, f"and {more} more") if more > 0 else shown)


class Document:
    """A YAML document as plain values, with the position of each.

    It is read at bounded cost: no aliases (a few hundred bytes of them can expand to gigabytes), limited depth. It is
    made of the parser's events, without a tree in between, since whoever reads a large policy serves nobody meanwhile.
    """

    def __init__(self, source: str, text: str) -> None:
        self.source = source
        self.marks: dict[KeyPath, yaml.Mark] = {}
        self.from_environment: dict[KeyPath, str] = {}
        self.unreadable: dict[KeyPath, str] = {}
        """Keys that are given twice, and those whose value is not what its tag calls it, with what is wrong."""
        self.value: Any = None
        try:
            self.value = self._only_document(_Parser(text))
        except yaml.YAMLError as error:
            self.marks.clear()
            self.unreadable.clear()
            if not self._read_by_sections(text):
                raise ConfigError(self._no_yaml(error)) from None

    def _no_yaml(self, error: yaml.YAMLError) -> str:
        if isinstance(error, yaml.MarkedYAMLError):
            mark = error.problem_mark or error.context_mark
            return f"{self.source}:{_position(mark)} not valid YAML: {error.problem}"
        return f"{self.source}: not valid YAML: {' '.join(str(error).split())}"

    def _read_by_sections(self, text: str) -> bool:
        """Read each section of the document by itself, so that one that is no YAML does not hide what else is wrong.

        The empty lines before a section keep its line numbers right. Returns False if that does not tell which section
        is no YAML.
        """
        begins = [match.start() for match in _SECTION.finditer(text)]
        if not 0 < len(begins) <= _MOST_SECTIONS:
            return False
        value: dict[str, Any] = {}
        bad: dict[KeyPath, str] = {}
        for begin, end in itertools.pairwise([*begins, len(text)]):
            key = text[begin : text.index(":", begin)]
            try:
                section = self._only_document(_Parser("\n" * text.count("\n", 0, begin) + text[begin:end]))
            except yaml.YAMLError as error:
                section, bad[(key,)] = {key: None}, self._no_yaml(error)
            value |= section
        self.value = value
        self.unreadable |= bad
        return bool(bad)

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
                first = self.marks[*path, key]
                problem = f"given twice, first in line {first.line + 1}"
                self.unreadable[*path, key] = (
                    f"{self.source}:{_position(mark)} {dotted((*path, key))}: {problem}"
                )
            self.marks[*path, key] = mark
            value[key] = self._plain(parser, parser.get_event(), (*path, key), depth + 1)
        return value

    def _scalar(self, parser: Any, event: Any, path: KeyPath) -> Any:
        if len(event.value) > _MAX_SCALAR_CHARS:  # a long number can take hours to parse
            place = _position(event.start_mark)
            problem = f"a value of {len(event.value)} characters, more than {_MAX_SCALAR_CHARS}"
            self.unreadable[path] = f"{self.source}:{place} {dotted(path)}: {problem}"
            return None
        if event.tag is None and not event.implicit[0]:
            return event.value  # in quotes
        tag = event.tag
        if tag is None or tag == "!":
            tag = parser.resolve(yaml.ScalarNode, event.value, event.implicit)
        node = yaml.ScalarNode(tag, event.value, event.start_mark, event.start_mark)
        try:
            return parser.construct_object(node)
        except UNREADABLE:
            place, kind = _position(event.start_mark), tag.rpartition(":")[2]
            shown = "" if may_be_secret(path) else f": {event.value!r}"
            problem = f"not a valid {kind}{shown} (put text in quotes)"
            self.unreadable[path] = f"{self.source}:{place} {dotted(path)}: {problem}"
            return None

    def where(self, path: KeyPath) -> str:
        """Return the place of a key: file, line and column, or the environment variable that set it."""
        for length in range(len(path), -1, -1):
            if (name := self.from_environment.get(path[:length])) is not None:
                return f"environment variable {name}:"
            if (mark := self.marks.get(path[:length])) is not None:
                return f"{self.source}:{_position(mark)}"
        return f"{self.source}:"

    def problem(self, path: KeyPath, text: str) -> str:
        """Return a line about a key: its place, its name and what is wrong.

        A text that begins with the name of a key, in backquotes, is about that key, below ``path`` or of the document.
        """
        named = _NAMED.match(text)
        if named is not None:
            steps = _keys_of(named["key"])
            for key in ((*path, *steps), steps, (*steps[:2], named["key"].split(".", 2)[-1])):
                if key in self.marks or key in self.from_environment:
                    path, text = key, text[named.end() :] if named["colon"] else text
                    break
        return f"{self.where(path)} {dotted(path)}: {text}"


def may_be_secret(path: KeyPath) -> bool:
    """Whether no message may show the value of this key."""
    return path[:2] == ("fleet", "kafka")


def _position(mark: yaml.Mark | None) -> str:
    return "" if mark is None else f"{mark.line + 1}:{mark.column + 1}:"


def dotted(path: KeyPath) -> str:
    """Return the name of a key, as ``listeners[0].port``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".") or "the document"


def _keys_of(name: str) -> KeyPath:
    return tuple(part["key"] or int(part["index"]) for part in _PARTS.finditer(name))
