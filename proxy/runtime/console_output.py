"""``--output``, ``--no-color``: options that mean the same in every command that has them."""

import os
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer


class OutputFormat(StrEnum):
    """How a command reports."""

    TEXT = "text"
    """Lines and tables for people. They may change from release to release."""

    JSON = "json"
    """One JSON document on standard output, for scripts. Fields may be added."""


Output = Annotated[
    OutputFormat,
    typer.Option(
        "--output", "-o", metavar="FORMAT", help="Lines for people (text), or one JSON document (json)."
    ),
]


def _without_colour(asked: bool) -> None:
    if asked:
        os.environ["NO_COLOR"] = "1"  # rich, Typer's help and our log look there


NoColor = Annotated[
    bool,
    typer.Option(
        "--no-color",
        callback=_without_colour,
        is_eager=True,
        expose_value=False,
        help="Print without colours, as with the environment variable NO_COLOR.",
    ),
]


def print_json(report: Any) -> None:
    """Write a report (anything that msgspec encodes) to standard output, as UTF-8.

    Names in it may be a client's: what could command a terminal is escaped, which means the same in JSON.
    """
    if sys.stdout is None:  # closed by whoever started the command, who goes by the exit code
        return
    import msgspec  # noqa: PLC0415  with the codecs, what every command would load otherwise

    from protocol_codecs.printable import printable_json  # noqa: PLC0415

    text = msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
    sys.stdout.buffer.write(f"{printable_json(text)}\n".encode())
    sys.stdout.buffer.flush()
