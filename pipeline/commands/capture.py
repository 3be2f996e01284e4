"""`epochgate capture`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from pipeline.commands.common import (
    LOCAL_FOLDER,
    Kafka,
    KafkaConf,
    KafkaConfFile,
    exit_on_error,
    kafka_settings,
    say,
)
from pipeline.errors import PipelineError
from pipeline.watch import console
from proxy.runtime.console_output import Output, OutputFormat, print_json


def capture(
    bootstrap: Annotated[
        str, typer.Option("--from", metavar="HOST:PORT", help="A broker, or several separated by commas.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            parser=LOCAL_FOLDER, metavar="DIR", help="Folder to write. It must not contain a capture yet."
        ),
    ],
    kafka: Kafka = None,
    kafka_conf: KafkaConf = None,
    kafka_conf_file: KafkaConfFile = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Copy a cluster's __consumer_offsets (and __share_group_state) to files, for `epochgate pipeline readiness`."""
    with exit_on_error():
        try:
            from pipeline import capture as capturing  # noqa: PLC0415 - needs the pipeline's own dependencies
            from pipeline.readiness.cluster import NO_RIGHT_TO_SHARE_STATE  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise PipelineError(
                f"{error.name} is not installed: "
                "pip install '.[pipeline]' in a checkout of Epochgate brings what this command needs"
            ) from None
        with Progress(console=console()) as bar:
            shown = bar.add_task("reading the coordinators' topics", total=None)
            copied = capturing.capture(
                bootstrap,
                out,
                kafka_settings(kafka, kafka_conf, kafka_conf_file),
                lambda done, total: bar.update(shown, completed=done, total=total),
            )
    if not copied.may_read_share_state:
        say(NO_RIGHT_TO_SHARE_STATE, err=True)
    if output is OutputFormat.JSON:
        print_json({"out": str(out), "records": copied.records, "share_records": copied.share_records})
        return
    typer.echo(f"{out}: {copied.records} records")
    if copied.share_records is not None:
        typer.echo(f"{out}: {copied.share_records} records of share groups' state")
