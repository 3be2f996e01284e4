"""`epochgate pipeline report`."""

import webbrowser
from typing import Annotated

import typer

from pipeline.commands.common import (
    FOLDER,
    OUT_FILE,
    Conf,
    Master,
    exit_on_error,
    pairs,
    session,
)
from pipeline.location import Location


def report(
    out: Annotated[Location, typer.Option(parser=OUT_FILE, metavar="FILE", help="The HTML file to write.")],
    readiness: Annotated[
        Location | None,
        typer.Option(parser=FOLDER, metavar="DIR", help="Folder that `epochgate pipeline readiness` wrote."),
    ] = None,
    progress: Annotated[
        Location | None,
        typer.Option(parser=FOLDER, metavar="DIR", help="Folder that `epochgate pipeline progress` wrote."),
    ] = None,
    audit: Annotated[
        Location | None,
        typer.Option(parser=FOLDER, metavar="DIR", help="Folder that `epochgate pipeline audit` wrote."),
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
    if open_it and out.local is None:
        raise typer.BadParameter("--open is for a page on this machine")
    with exit_on_error(), session("report", master, pairs(conf)) as spark:
        from pipeline.report import job  # noqa: PLC0415 - the session says what is missing

        job.run(spark, out, readiness, progress, audit, done_waves=done_waves)
    typer.echo(f"{out}: written")
    if open_it and out.local is not None:
        webbrowser.open(out.local.absolute().as_uri())
