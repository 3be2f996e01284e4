"""`epochgate pipeline readiness`."""

from typing import Annotated

import typer

from pipeline import kafka_clients
from pipeline.commands.common import (
    FOLDER,
    Conf,
    Format,
    Kafka,
    KafkaConf,
    KafkaConfFile,
    Master,
    TableFormat,
    check_folder,
    check_topic,
    exit_on_error,
    kafka_settings,
    pairs,
    say,
    session,
)
from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems
from pipeline.location import Location
from pipeline.readiness import cluster
from protocol_codecs.classic_clients import OPTIONS, STREAMS, Refusal
from proxy.runtime.console_output import Output, OutputFormat, print_json


def readiness(
    out: Annotated[
        Location,
        typer.Option(parser=FOLDER, metavar="DIR", help="Folder for the tables and the policy files."),
    ],
    capture: Annotated[
        Location | None,
        typer.Option(parser=FOLDER, metavar="DIR", help="Folder that `epochgate capture` wrote."),
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="HOST:PORT", help="Read this cluster through Spark's Kafka connector instead."
        ),
    ] = None,
    journal: Annotated[
        Location | None,
        typer.Option(
            parser=FOLDER,
            metavar="DIR",
            help="Folder with the journals of proxies in observe mode: they name the client software.",
        ),
    ] = None,
    first_wave_groups: Annotated[
        int, typer.Option(min=1, metavar="N", help="Groups in the first wave.")
    ] = 10,
    first_wave_members: Annotated[
        int, typer.Option(min=1, metavar="N", help="Members in the first wave.")
    ] = 50,
    growth: Annotated[
        float,
        typer.Option(
            min=1.0, metavar="FACTOR", help="How many times larger each wave may be than the one before."
        ),
    ] = 2.0,
    allow_assignor: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A custom assignor whose clients can do without it. It is written into the policy files as "
            "assignors_allowed, which makes the proxy translate its groups. Repeat the option for several.",
        ),
    ] = None,
    kafka: Kafka = None,
    kafka_conf: KafkaConf = None,
    kafka_conf_file: KafkaConfFile = None,
    table_format: Format = TableFormat.PARQUET,
    master: Master = None,
    conf: Conf = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Report which groups can move, what prevents the others, and in which order: from __consumer_offsets."""
    if (capture is None) == (bootstrap is None):
        raise typer.BadParameter("give either --capture or --from")
    if STREAMS in (allow_assignor or ()):
        raise typer.BadParameter(f"{STREAMS} is Kafka Streams: {OPTIONS[Refusal.STREAMS]}")
    spark_settings = pairs(conf)
    with exit_on_error():  # what keeps Kafka's clients out is said before Spark has started
        settings = kafka_settings(kafka, kafka_conf, kafka_conf_file, for_spark=True)
        asked = None if bootstrap is None else _ask(bootstrap, settings)
    with exit_on_error(), session("readiness", master, spark_settings) as spark:
        from pipeline.journal import events  # noqa: PLC0415 - the session says what is missing
        from pipeline.readiness import job, records, share_partitions  # noqa: PLC0415 - the session says what is missing
        from pipeline.readiness.waves import Limits  # noqa: PLC0415

        files = FileSystems(spark)
        share = None
        if capture is not None:
            check_folder(spark, capture)
            if not files.is_folder(capture / records.CAPTURED.name):
                raise PipelineError(f"{capture}: no capture is there, or one that was not finished")
            rows = records.captured(spark, capture.uri)
            file = capture / cluster.CLUSTER_FILE
            about = cluster.Cluster.decoded(files.read(file), str(file))
            share = share_partitions.captured(spark, capture)
        elif bootstrap is not None and asked is not None:
            about, share_partitions_there = asked
            rows = records.from_kafka(spark, bootstrap, about.partitions(cluster.OFFSETS_TOPIC), settings)
            if share_partitions_there:
                topic = cluster.SHARE_STATE_TOPIC
                share = records.from_kafka(spark, bootstrap, share_partitions_there, settings, topic)
        else:
            raise PipelineError("no source")
        limits = Limits(first_wave_groups, first_wave_members, growth)
        options = job.Options(limits, frozenset(allow_assignor or ()))
        seen = None if journal is None else events.from_files(spark, check_folder(spark, journal).uri)
        files.make_folder(out)  # says at once if that can't be
        summary = job.run(spark, rows, about, out, options, seen, share, table_format.form)
    if output is OutputFormat.JSON:
        print_json(summary._asdict() | {"policies": [str(file) for file in summary.policies]})
        return
    say(f"{summary.groups} groups")
    for verdict, count in sorted(summary.verdicts.items()):
        say(f"  {verdict}: {count}")
    if summary.other_protocols:
        listed = ", ".join(f"{count} {name}" for name, count in sorted(summary.other_protocols.items()))
        say(f"{sum(summary.other_protocols.values())} of those not ready have nothing to move to: {listed}")
    say(f"{summary.waves} waves; policy files in {out / job.POLICY}")
    for reason, count in summary.quarantined.items():
        say(f"quarantined {count}: {reason}")


def _ask(bootstrap: str, settings: dict[str, str]) -> tuple[cluster.Cluster, int]:
    """Return what the cluster says, and the partitions of the share state topic; 0 if it can't be read.

    Raises PipelineError.
    """
    about = cluster.ask(bootstrap, settings)
    if not about.partitions(cluster.OFFSETS_TOPIC):
        raise PipelineError(f"{bootstrap} has no {cluster.OFFSETS_TOPIC}: no group has ever been there")
    check_topic(bootstrap, cluster.OFFSETS_TOPIC, settings)
    if not kafka_clients.may_read(bootstrap, cluster.SHARE_STATE_TOPIC, settings):
        say(cluster.NO_RIGHT_TO_SHARE_STATE, err=True)
        return about, 0
    return about, about.partitions(cluster.SHARE_STATE_TOPIC)
