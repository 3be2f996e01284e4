"""The commands of this package: ``epochgate capture|verify``, ``epochgate policy from-readiness``, and those of
``epochgate pipeline``: ``readiness|progress|audit|report|tables``.

The command line finds them by the entry point group ``epochgate.commands`` (pyproject.toml), so the proxy does not
know the pipeline. Spark is imported inside the commands: without it the rest of the command line works.
"""

import typer

from pipeline.commands import (
    audit,
    capture,
    policy_from_readiness,
    progress,
    readiness,
    report,
    tables,
    verify,
)

app = typer.Typer(
    help="Plan a migration and check it afterwards, on Spark: readiness, progress, audit, report.",
    no_args_is_help=True,
)
app.command("readiness")(readiness.readiness)
app.command("progress")(progress.progress)
app.command("audit")(audit.audit)
app.command("report")(report.report)
app.add_typer(tables.app, name="tables")


def add_to(command_line: typer.Typer) -> None:
    """Add the commands to the command line."""
    command_line.command("capture")(capture.capture)
    command_line.command("verify")(verify.verify)
    command_line.add_typer(app, name="pipeline")
    for group in command_line.registered_groups:
        if group.name == "policy" and group.typer_instance is not None:
            group.typer_instance.command("from-readiness")(policy_from_readiness.from_readiness)
