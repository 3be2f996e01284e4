"""`epochgate pipeline report`."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.common import Conf, Master, exit_on_error, pairs, session


def report(
    out: Annotated[Path, typer.Option(metavar="FILE", help="The HTML file to write.")],
    readiness: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder that `epochgate pipeline readiness` wrote.")
    ] = None,
    progress: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder that `epochgate pipeline progress` wrote.")
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder that `epochgate pipeline audit` wrote.")
    ] = None,
    done_waves: Annotated[
        int, typer.Option(min=0, metavar="N", help="Waves that have been moved already.")
    ] = 0,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Write one HTML file with everything that the other commands found."""
    if readiness is None and progress is None and audit is None:
        raise typer.BadParameter("nothing to report: give --readiness, --progress or --audit")
    with exit_on_error(), session("report", master, pairs(conf)) as spark:
        from pipeline.report import job  # noqa: PLC0415 - the session says what is missing

        job.run(spark, out, readiness, progress, audit, done_waves=done_waves)
    typer.echo(f"{out}: written")
    if open_it:
        webbrowser.open(out.absolute().as_uri())
