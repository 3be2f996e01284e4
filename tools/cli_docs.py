"""Writes docs/reference/cli.md from the commands themselves and :mod:`proxy.runtime.exit_codes`."""

import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any

import typer.main

from proxy.cli import command_line
from proxy.cli.lazy import LazyGroup
from proxy.runtime.exit_codes import MEANINGS

_HEAD = """\
# Command line

`epochgate --help` lists the commands, `epochgate COMMAND --help` (`-h`) explains one. `epochgate --install-completion`
installs completion of commands and options in your shell.

`make docs` writes this page from the commands themselves and from `proxy/runtime/exit_codes.py`.

## Output

- Commands that report take `--output json` (`-o json`): one JSON document on standard output. Later versions may add
  fields. The text output is for people and may change. `status -o json` prints what [`/api/groups`](api.md) answers.
- Errors, progress bars and the log go to standard error.
- Colours appear on terminals only. `--no-color`, or a variable `NO_COLOR` that is not empty, switches them off.

## Exit codes

A code has the same meaning for every command.

| code | name | meaning |
| --- | --- | --- |
"""


def page() -> str:
    """Return the whole page."""
    codes = [f"| {code:d} | `{code.name}` | {meaning} |\n" for code, meaning in MEANINGS.items()]
    root = typer.main.get_command(command_line())
    return "".join((_HEAD, *codes, "\n## epochgate\n", *_parameters(root), *_commands("epochgate", root)))


def _commands(words: str, group: Any) -> Iterator[str]:
    for name, command in sorted(group.load_all().items()):
        path = f"{words} {name}"
        if isinstance(command, LazyGroup):
            yield from _commands(path, command)
            continue
        arguments = "".join(
            f" {one.name.upper()}" if one.required else f" [{one.name.upper()}]"
            for one in command.params
            if not _is_option(one)
        )
        yield f"\n## {path}\n\n`{path}{arguments} [OPTIONS]`\n\n{inspect.cleandoc(command.help)}\n"
        yield from _parameters(command)


def _parameters(command: Any) -> Iterator[str]:
    if command.params:
        yield "\n| argument or option | default | meaning |\n| --- | --- | --- |\n"
    for one in command.params:
        yield f"| {_spelling(one)} | {_default(one)} | {one.help}{_values(one)} |\n"


def _is_option(parameter: Any) -> bool:
    return bool(parameter.opts[0].startswith("-"))


def _spelling(parameter: Any) -> str:
    if not _is_option(parameter):
        return f"`{parameter.name.upper()}`"
    value = ""
    if not parameter.is_flag:
        value = f" {parameter.metavar or parameter.name.upper()}"
    return ", ".join(f"`{one}{value}`" for one in parameter.opts)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "*required*"
    value = parameter.default
    if value is None or value is False:
        return ""
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _values(parameter: Any) -> str:
    if isinstance(parameter.default, Enum):
        return f" One of {', '.join(f'`{one.value}`' for one in type(parameter.default))}."
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if low is None:
        return ""
    return f" At least {low}." if high is None else f" {low} to {high}."
