"""``epochgate config check|schema``."""

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from proxy.cli.configuration import INVALID, checked, refused
from proxy.config.schema import Config
from proxy.console.output import Output, OutputFormat, print_json


def check(
    file: Annotated[Path, typer.Argument(help="The configuration file.")], output: Output = OutputFormat.TEXT
) -> None:
    """Check a configuration file, the TLS files, secrets and policy that it names, without starting anything.

    The exit code is 2 if one of them is invalid.
    """
    try:
        checked(file)
    except INVALID as error:
        if output is OutputFormat.JSON:
            print_json({"file": str(file), "valid": False, "error": str(error)})
        raise refused(error) from None
    if output is OutputFormat.JSON:
        print_json({"file": str(file), "valid": True, "error": None})
    else:
        typer.echo(f"{file}: good")


def schema() -> None:
    """Print the JSON schema of the configuration file."""
    typer.echo(json.dumps(msgspec.json.schema(Config), indent=2))
