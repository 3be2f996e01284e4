"""Options of commands that speak HTTPS with a running proxy."""

from pathlib import Path
from typing import Annotated

import typer

Certificate = Annotated[
    Path | None,
    typer.Option("--cert", metavar="FILE", help="With https: PEM file with your client certificate."),
]
Key = Annotated[
    Path | None,
    typer.Option("--key", metavar="FILE", help="With https: PEM file with its private key."),
]
Authorities = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        help="With https: PEM file with the authorities that the proxy's certificate comes from. Default: those of the "
        "system.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="File with the admin port's token (`admin.token_file`), in its first line.",
    ),
]
