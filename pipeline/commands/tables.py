"""`epochgate pipeline tables`: the upkeep of tables that the other commands have written."""

from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.commands.common import FOLDER, Conf, Master, exit_on_error, pairs, say, session
from pipeline.location import Location
from proxy.runtime.console_output import Output, OutputFormat, print_json

if TYPE_CHECKING:
    from pipeline.upkeep import Held

_Folder = Annotated[Location, typer.Argument(parser=FOLDER, metavar="DIR", help="Folder with the tables.")]


def show(
    folder: _Folder, master: Master = None, conf: Conf = None, output: Output = OutputFormat.TEXT
) -> None:
    """Say which run's tables hold, and how their quality was judged; with Delta Lake also every table's versions."""
    with exit_on_error(), session("tables", master, pairs(conf)) as spark:
        from pipeline import upkeep  # noqa: PLC0415 - the session says what is missing

        held = upkeep.show(spark, folder)
    if output is OutputFormat.JSON:
        print_json(held._asdict())
    else:
        _print(held)


def compact(folder: _Folder, master: Master = None, conf: Conf = None) -> None:
    """Write small files anew as larger ones: folders that incremental audits have added, and Delta Lake's files.

    The rows stay as they are, and readers may go on.
    """
    with exit_on_error(), session("tables", master, pairs(conf)) as spark:
        from pipeline import upkeep  # noqa: PLC0415 - the session says what is missing

        names = upkeep.compact(spark, folder)
    say(f"{folder}: {'compacted ' + ', '.join(names) if names else 'nothing to compact'}")


def vacuum(
    folder: _Folder,
    keep_hours: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="HOURS",
            help="For so long after they were replaced, earlier versions can be read. Longer than any reader and any "
            "run takes.",
        ),
    ] = 168,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Delete the files of earlier versions of tables in Delta Lake: these can't be read from then on."""
    with exit_on_error(), session("tables", master, pairs(conf)) as spark:
        from pipeline import upkeep  # noqa: PLC0415 - the session says what is missing

        upkeep.vacuum(spark, folder, keep_hours)
    say(f"{folder}: what was replaced more than {keep_hours} hours ago is deleted")


def _print(held: "Held") -> None:
    say(f"run {held.run} of {held.command}, {held.form}")
    for check in held.quality:
        limit = "" if check["good_until"] is None else f" (good until {check['good_until']})"
        say(f"  {check['verdict']}: {check['check']} {check['value']}{limit}")
    for name, versions in held.versions.items():
        for one in versions:
            mark = " holds" if one["version"] == held.holds[name] else ""
            say(f"{name} version {one['version']} {one['written']} by {one['by']}{mark}")
