"""Makes Typer's command line from :mod:`proxy.cli.table`, in which a command's module is imported when it is called."""

import gc
import importlib
from functools import cache
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from proxy import VERSION
from proxy.cli.table import COMMANDS, GROUPS
from proxy.runtime.console_output import NoColor


class LazyGroup(typer.core.TyperGroup):
    """The commands of the table that begin with `words`; each is a name with a line of help until it is called."""

    def __init__(self, *, words: str = "", **options: Any) -> None:
        super().__init__(**options)
        self._words = words
        for name in _below(words):
            path = f"{words} {name}".strip()
            summary = GROUPS[path] if path in GROUPS else COMMANDS[path].summary
            self.commands[name] = typer.core.TyperCommand(name=name, help=summary)

    def load(self, name: str) -> Any:
        """The command itself, whose module is imported now if it was not before."""
        path = f"{self._words} {name}".strip()
        command = self.commands[name]
        if path in GROUPS and not isinstance(command, LazyGroup):
            command = LazyGroup(words=path, name=name, help=GROUPS[path], no_args_is_help=True)
        elif path in COMMANDS and command.callback is None:
            module, _, function = COMMANDS[path].at.partition(":")
            gc.disable()  # modules are never freed, and traversing them took a tenth of a start
            command = _command(name, getattr(importlib.import_module(module), function))
            gc.freeze()
            gc.enable()
        self.commands[name] = command
        return command

    def load_all(self) -> dict[str, Any]:
        """Every command of the group itself, by its name."""
        return {name: self.load(name) for name in self.commands}

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the arguments name, loaded."""
        if args and args[0] in self.commands:
            self.load(args[0])
        return super().resolve_command(ctx, args)


def _below(words: str) -> list[str]:
    """The names of commands and then of groups one level below these words."""
    depth = len(words.split())
    paths = [path.split() for path in (*COMMANDS, *GROUPS)]
    return [path[-1] for path in paths if len(path) == depth + 1 and path[:depth] == words.split()]


def _command(name: str, function: Any) -> Any:
    alone = typer.Typer(add_completion=False)
    alone.command(name)(function)
    return typer.main.get_command(alone)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"epochgate {VERSION}")
        raise typer.Exit


def _options(
    _show: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    _no_color: NoColor = False,
) -> None:
    pass


@cache
def command_line() -> typer.Typer:
    """Every command of the table."""
    app = typer.Typer(
        name="epochgate",
        cls=LazyGroup,
        help="Online migration proxy for Kafka consumer groups.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    return app
