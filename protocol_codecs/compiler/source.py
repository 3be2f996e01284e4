"""Python source under construction, and the names that it uses."""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """Lines of one function, with the objects that its global names stand for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._depth = 0

    def add(self, line: str) -> None:
        """Append a line at the present depth."""
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Append a compound statement; what is added inside becomes its body."""
        self.add(head)
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.add("pass")
        self._depth -= 1

    def name(self, name: str, value: object) -> str:
        """Let ``name`` stand for ``value`` in the function; returns the name."""
        known = self.names.setdefault(name, value)
        if known is not value and known != value:
            raise ValueError(f"{name} stands for two things")
        return name

    def text(self) -> str:
        """The whole source."""
        return "\n".join(self.lines) + "\n"

    def function(self, name: str, title: str) -> Callable[..., Any]:
        """Compile the source and take the function of that name; tracebacks will show its lines."""
        file = f"<{title}>"
        text = self.text()
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        namespace = dict(self.names)
        exec(compile(text, file, "exec"), namespace)  # noqa: S102 - made from our own declarations
        function: Callable[..., Any] = namespace[name]
        return function


def identifier(codes: str) -> str:
    """Struct codes as a part of a name."""
    return codes.replace("?", "t")
