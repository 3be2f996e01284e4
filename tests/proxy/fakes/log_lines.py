"""Log lines as a process writes them, read back by a test."""

import io
import json


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def lines_of(stream: io.StringIO) -> list[dict[str, object]]:
    """The lines of a JSON log."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]
