"""Builds Python source code, and keeps the objects that its global names stand for."""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_WIDTH = 100


class Source:
    """The lines of one function, with the objects that its global names stand for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._variables: dict[str, tuple[str, str]] = {}
        self._depth = 0

    def add(self, line: str) -> None:
        """Append a line at the current depth; a long one is broken inside its brackets."""
        indent = "    " * self._depth
        self.lines += [indent + part for part in wrapped(line, _WIDTH - len(indent))]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Append a compound statement; lines added inside the context become its body."""
        self.add(head)
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.add("pass")
        self._depth -= 1

    def name(self, name: str, value: object) -> str:
        """Bind ``name`` to ``value`` in the function; returns the name."""
        known = self.names.setdefault(name, value)
        if known is not value and known != value:
            raise ValueError(f"{name} stands for two things")
        return name

    def variable(self, prefix: str, message: str, field: str) -> str:
        """Return the variable of a field; no two fields of the function may share one."""
        variable = prefix + field
        if self._variables.setdefault(variable, (message, field)) != (message, field):
            raise ValueError(f"{variable} would be {message}.{field} and {self._variables[variable]}")
        return variable

    def prefix(self, variable: str) -> str:
        """Return the prefix of variables of nested fields: ``partition_`` inside ``topic_partitions``."""
        _, field = self._variables[variable]
        return f"{field.removesuffix('s')}_"

    def text(self) -> str:
        """Return the whole source."""
        return "\n".join(self.lines) + "\n"

    def function(self, name: str, title: str) -> Callable[..., Any]:
        """Compile the source and return the function of that name; tracebacks show its lines."""
        file = f"<{title}>"
        text = self.text()
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        namespace = dict(self.names)
        exec(compile(text, file, "exec"), namespace)  # noqa: S102 - made from our own declarations
        function: Callable[..., Any] = namespace[name]
        return function


def wrapped(line: str, width: int) -> list[str]:
    """Break a line of Python that is too wide at the commas of its widest brackets."""
    spans = [(opening, closing) for opening, closing in _bracketed(line) if closing - opening > width // 3]
    if len(line) <= width or not spans:
        return [line]
    opening, closing = max(spans, key=lambda span: span[1] - span[0])
    inner = line[opening + 1 : closing]
    inside = _bracketed(inner)
    cuts = [i for i, c in enumerate(inner) if c == "," and not any(a < i < b for a, b in inside)]
    ends = [*(cut + 1 for cut in cuts), len(inner)]
    parts = [inner[start:end].strip() for start, end in zip([0, *ends], ends, strict=False)]
    body = [f"    {piece}" for part in parts if part for piece in wrapped(part, width - 4)]
    return [line[: opening + 1], *body, line[closing:]]


def _bracketed(line: str) -> list[tuple[int, int]]:
    """Return where the outermost brackets of a line open and close."""
    spans, depth, opening = [], 0, 0
    for position, character in enumerate(line):
        if character in "([{":
            opening = opening if depth else position
            depth += 1
        elif character in ")]}":
            depth -= 1
            if not depth:
                spans.append((opening, position))
    return spans


def identifier(codes: str) -> str:
    """Return struct codes in a form that can be part of a name."""
    return codes.replace("?", "t")
