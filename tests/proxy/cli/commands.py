"""The command line as a tree, for tests that hold for every command."""

from collections.abc import Iterator
from typing import Any

import typer.main

from proxy.cli import command_line
from proxy.cli.lazy import LazyGroup


def leaves() -> dict[str, Any]:
    """Every command that does something, by its words: ``policy check``."""
    return dict(_walk((), typer.main.get_command(command_line())))


def _walk(words: tuple[str, ...], command: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(command, LazyGroup):
        yield " ".join(words), command
        return
    for name, inner in command.load_all().items():
        yield from _walk((*words, name), inner)


def options(command: Any) -> set[str]:
    """All spellings of a command's options."""
    return {one for parameter in command.params for one in parameter.opts}
