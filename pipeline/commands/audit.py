"""`epochgate pipeline audit`."""

from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.commands.common import (
    FOLDER,
    Conf,
    Format,
    GoneAfter,
    Kafka,
    KafkaConf,
    KafkaConfFile,
    Master,
    TableFormat,
    check_folder,
    check_source,
    check_topic,
    exit_on_error,
    kafka_settings,
    pairs,
    say,
    say_unfinished,
    session,
    source,
)
from pipeline.file_systems import FileSystems
from pipeline.location import Location
from pipeline.rules.unfinished import GONE_AFTER_S
from proxy.runtime.console_output import Output, OutputFormat, print_json
from proxy.runtime.exit_codes import ExitCode

if TYPE_CHECKING:
    from pipeline.audit.judging import Summary


def audit(
    out: Annotated[Location, typer.Option(parser=FOLDER, metavar="DIR", help="Folder for the tables.")],
    journal: Annotated[
        Location | None,
        typer.Option(parser=FOLDER, metavar="DIR", help="Folder with the journals of all replicas."),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option("--from", metavar="HOST:PORT", help="Read the journal from this Kafka cluster instead."),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Topic of the journal, with --from.")] = None,
    skew_ms: Annotated[
        float,
        typer.Option(
            min=0, metavar="MS", help="How far the clocks of two replicas may differ, in milliseconds."
        ),
    ] = 100.0,
    gone_after_s: GoneAfter = GONE_AFTER_S,
    kafka: Kafka = None,
    kafka_conf: KafkaConf = None,
    kafka_conf_file: KafkaConfFile = None,
    incremental: Annotated[
        bool,
        typer.Option(
            "--incremental",
            help="Read only the files that are new in --journal since the last run with this option, and go on from "
            "what that found. The tables are those of a run over all files until now.",
        ),
    ] = False,
    table_format: Format = TableFormat.PARQUET,
    master: Master = None,
    conf: Conf = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Find partitions that two members owned at once, and times without an owner, in the journals of all replicas.

    The exit code is 3 if a partition was owned twice.
    """
    check_source(journal, bootstrap, topic)
    if incremental and journal is None:
        raise typer.BadParameter("--incremental is for files: give --journal")
    spark_settings = pairs(conf)
    with exit_on_error():  # what keeps Kafka's clients out is said before Spark has started
        settings = kafka_settings(kafka, kafka_conf, kafka_conf_file, for_spark=True)
        if bootstrap is not None and topic is not None:
            check_topic(bootstrap, topic, settings)
    with exit_on_error(), session("audit", master, spark_settings) as spark:
        from pipeline.audit import incremental as increments  # noqa: PLC0415 - the session says what is missing
        from pipeline.audit import job  # noqa: PLC0415
        from pipeline.journal import events, unfinished  # noqa: PLC0415

        form, skew_us = table_format.form, int(skew_ms * 1000)
        hidden = [] if journal is None else unfinished.find(spark, check_folder(spark, journal), gone_after_s)
        if incremental and journal is not None:
            FileSystems(spark).make_folder(out)  # says at once if that can't be
            summary = increments.run(spark, journal, out, skew_us=skew_us, hidden=hidden, form=form)
        else:
            lines = source(
                spark,
                journal,
                bootstrap,
                topic,
                lambda folder: events.from_files(spark, folder),
                lambda at, name: events.from_topic(spark, at, name, settings),
            )
            FileSystems(spark).make_folder(out)  # says at once if that can't be
            summary = job.run(spark, lines, out, skew_us=skew_us, hidden=hidden, form=form)
    if output is OutputFormat.JSON:
        print_json(_report(summary))
    else:
        _print(summary)
    if summary.violations:
        raise typer.Exit(ExitCode.PROBLEM_FOUND)


def _report(summary: "Summary") -> dict[str, object]:
    clocks = [
        {"ahead": ahead, "behind": behind, "at_least_us": apart_us}
        for (ahead, behind), apart_us in sorted(summary.clocks.items())
    ]
    return summary._asdict() | {"clocks": clocks, "violations": summary.violations}


def _print(summary: "Summary") -> None:
    say(
        f"{summary.events} events of {summary.groups} groups ({summary.duplicates} twice, {summary.lost} lost); "
        f"clocks may differ by {summary.skew_us / 1000:g} ms"
    )
    say(f"owned twice: {summary.violations}")
    for name, count in sorted(summary.overlaps.items()):
        say(f"  {name}: {count}")
    say(
        f"without an owner between two clients, as in each rebalance: {summary.gaps} times, "
        f"at longest {summary.longest_gap_us / 1000:g} ms"
    )
    for (ahead, behind), apart_us in sorted(summary.clocks.items()):
        say(f"clock of {ahead} is ahead of {behind}: accounts for overlaps up to {apart_us / 1000:g} ms")
    say_unfinished(summary.unfinished, summary.unread)
    for reason, count in summary.quarantined.items():
        say(f"quarantined {count}: {reason}")
