"""`epochgate capture`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from pipeline.commands.common import KafkaConf, KafkaConfFile, exit_on_error, kafka_settings
from pipeline.errors import PipelineError
from pipeline.watch import console
from proxy.console.output import Output, OutputFormat, print_json


def capture(
    bootstrap: Annotated[
        str, typer.Option("--from", metavar="HOST:PORT", help="A broker, or several separated by commas.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder to write. It must not contain a capture yet.")
    ],
    kafka_conf: KafkaConf = None,
    kafka_conf_file: KafkaConfFile = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Copy a cluster's __consumer_offsets to Parquet files, for `epochgate pipeline readiness`."""
    with exit_on_error():
        try:
            from pipeline import capture as capturing  # noqa: PLC0415 - needs the pipeline's own dependencies
        except ModuleNotFoundError as error:
            raise PipelineError(
                f"{error.name} is not installed: pip install 'epochgate[pipeline]' brings what this command needs"
            ) from None
        with Progress(console=console()) as bar:
            shown = bar.add_task("reading __consumer_offsets", total=None)
            count = capturing.capture(
                bootstrap,
                out,
                kafka_settings(kafka_conf, kafka_conf_file),
                lambda done, total: bar.update(shown, completed=done, total=total),
            )
    if output is OutputFormat.JSON:
        print_json({"out": str(out), "records": count})
    else:
        typer.echo(f"{out}: {count} records")
