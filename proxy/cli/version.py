"""``epochgate version``."""

import platform

import typer

from proxy import VERSION
from proxy.runtime.console_output import Output, OutputFormat, print_json


def version(output: Output = OutputFormat.TEXT) -> None:
    """Print the version. As JSON, also the version of Python."""
    if output is OutputFormat.JSON:
        print_json({"version": VERSION, "python": platform.python_version()})
    else:
        typer.echo(f"epochgate {VERSION}")
