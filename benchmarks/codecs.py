"""Measures the codecs beside kio (whose reader is native code) and kafka-python, on the same values.

`make bench-codecs` runs it, prints a table and writes build/bench-codecs.json. The contestants take turns within each
round, so that other load on the machine hits all of them alike; each one's best round counts. Look-ups that can be done
once are done once for every contestant; the column `decode()` shows ours with the look-up.
"""

import io
import json
import platform
import sys
import timeit
from dataclasses import dataclass
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any

from kafka.protocol import consumer as kafka_python_consumer
from kafka.protocol import metadata as kafka_python_metadata
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from protocol_codecs import Uuid, decode, encode
from protocol_codecs.address_rewrite import rewrite_metadata_brokers
from protocol_codecs.all_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol_codecs.codec import decoder_for, encoder_for
from protocol_codecs.message import Message

ROUNDS = 80
ROUND_SECONDS = 0.002
ENCODE_TARGET = 5.0
DECODE_TARGET = 1.5
REWRITE_TARGET = 20.0
REPORT = Path(__file__).resolve().parents[1] / "build" / "bench-codecs.json"

MEMBER_ID = "consumer-1-6d2b0c5e-3b3b-4e1f-9d0a-0123456789ab"


@dataclass(frozen=True)
class Row:
    """One message to measure; ``decode_target`` says whether the target for decoding applies to it."""

    label: str
    message: Message
    version: int
    decode_target: bool = True


def topic_ids(count: int) -> list[Uuid]:
    return [Uuid(bytes(range(number, number + 16))) for number in range(count)]


def offset_commit(topics: int, partitions: int) -> list[Row]:
    request = OffsetCommitRequest(
        group_id="my-group",
        generation_id_or_member_epoch=3,
        member_id=MEMBER_ID,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=f"topic-{topic}",
                partitions=tuple(
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=123_456 + index)
                    for index in range(partitions)
                ),
            )
            for topic in range(topics)
        ),
    )
    response = OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
    size = f"{topics}x{partitions}"
    return [
        Row(f"OffsetCommit request {size}", request, 9),
        Row(f"OffsetCommit response {size}", response, 9),
    ]


def consumer_group_heartbeat() -> list[Row]:
    idle = ConsumerGroupHeartbeatRequest(group_id="my-group", member_id=MEMBER_ID, member_epoch=3)
    complete = ConsumerGroupHeartbeatRequest(
        group_id="my-group",
        member_id=MEMBER_ID,
        member_epoch=3,
        rebalance_timeout_ms=45_000,
        subscribed_topic_names=("topic-a", "topic-b"),
        server_assignor="uniform",
        topic_partitions=tuple(
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=(0, 1, 2, 3, 4))
            for topic_id in topic_ids(2)
        ),
    )
    nothing_new = ConsumerGroupHeartbeatResponse(
        member_id=MEMBER_ID, member_epoch=3, heartbeat_interval_ms=5_000
    )
    assignment = ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=tuple(
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=(0, 1, 2, 3, 4))
            for topic_id in topic_ids(2)
        )
    )
    assigned = ConsumerGroupHeartbeatResponse(
        member_id=MEMBER_ID, member_epoch=3, heartbeat_interval_ms=5_000, assignment=assignment
    )
    return [
        Row("ConsumerGroupHeartbeat request, idle", idle, 1),
        Row("ConsumerGroupHeartbeat request, full", complete, 1),
        Row("ConsumerGroupHeartbeat response, idle", nothing_new, 1),
        Row("ConsumerGroupHeartbeat response, assigned", assigned, 1),
    ]


def metadata(brokers: int, topics: int, partitions: int) -> MetadataResponse:
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(
                node_id=node_id, host=f"kafka-{node_id}.internal", port=9092, rack="rack-a"
            )
            for node_id in range(brokers)
        ),
        cluster_id="MkU3OEVBNTcwNTJENDM2Qk",
        controller_id=1,
        topics=tuple(
            MetadataResponseTopic(
                name=f"topic-{number}",
                topic_id=topic_id,
                partitions=tuple(
                    MetadataResponsePartition(
                        partition_index=index,
                        leader_id=index % brokers,
                        leader_epoch=4,
                        replica_nodes=(0, 1, 2),
                        isr_nodes=(0, 1, 2),
                    )
                    for index in range(partitions)
                ),
            )
            for number, topic_id in enumerate(topic_ids(topics))
        ),
    )


def rows() -> list[Row]:
    return [
        Row(
            "Heartbeat request",
            HeartbeatRequest(group_id="my-group", generation_id=3, member_id=MEMBER_ID),
            4,
        ),
        Row("Heartbeat response", HeartbeatResponse(), 4),
        *offset_commit(1, 1),
        *offset_commit(1, 10),
        *offset_commit(2, 5),
        *offset_commit(10, 10),
        *consumer_group_heartbeat(),
        Row("Metadata response, 1000 partitions", metadata(3, 10, 100), 12, decode_target=False),
    ]


Contestant = tuple[str, dict[str, Any]]
"""A statement, and the names in it: timed without a function around it."""


def best_times(contestants: dict[str, Contestant]) -> dict[str, float]:
    """Return the seconds of one execution of each, in its best round."""
    timers = {
        name: timeit.Timer(statement, globals=names) for name, (statement, names) in contestants.items()
    }
    loops = {}
    for name, timer in timers.items():
        number, seconds = timer.autorange()
        loops[name] = max(1, round(number * ROUND_SECONDS / seconds))
    best = dict.fromkeys(timers, float("inf"))
    for _ in range(ROUNDS):
        for name, timer in timers.items():
            best[name] = min(best[name], timer.timeit(loops[name]) / loops[name])
    return best


def kio_contestants(row: Row, data: bytes) -> dict[str, Contestant]:
    schema = row.message.__schema__
    load = load_request_schema if schema.name.endswith("Request") else load_response_schema
    entity_type = load(schema.api_key or 0, row.version)
    names: dict[str, Any] = {
        "read": entity_reader(entity_type),
        "write": entity_writer(entity_type),
        "data": data,
    }
    names |= {"entity": names["read"](data, 0)[0], "BytesIO": io.BytesIO}
    writing = "buffer = BytesIO(); write(buffer, entity); written = buffer.getvalue()"
    check_same_bytes(writing, names)
    return {"kio decode": ("read(data, 0)", names), "kio encode": (writing, names)}


def kafka_python_contestants(row: Row, data: bytes) -> dict[str, Contestant]:
    name, version = row.message.__schema__.name, row.version
    message_type: Any = getattr(kafka_python_consumer, name, None) or getattr(
        kafka_python_metadata, name, None
    )
    if message_type is None:
        return {}
    decoded = message_type.decode(data, version=version)
    fields = {field: getattr(decoded, field) for field in decoded.to_dict() if field != "version"}
    # A decoded message cannot be encoded again: the constructor sets what encoding needs.
    names = {"read": message_type.decode, "message": message_type(version=version, **fields), "data": data}
    names |= {"version": version}
    writing = "written = message.encode(version=version)"
    check_same_bytes(writing, names)
    return {
        "kafka-python decode": ("read(data, version=version)", names),
        "kafka-python encode": (writing, names),
    }


def our_contestants(row: Row, data: bytes) -> dict[str, Contestant]:
    message_type, version = type(row.message), row.version
    names = {
        "read": decoder_for(message_type, version),
        "write": encoder_for(message_type, version),
        "decode": decode,
        "encode": encode,
        "message_type": message_type,
        "message": row.message,
        "version": version,
        "data": data,
    }
    check_same_bytes("written = write(read(data, 0))", names)
    return {
        "decode": ("read(data, 0)", names),
        "encode": ("write(message)", names),
        "decode()": ("decode(message_type, version, data)", names),
        "encode()": ("encode(message, version)", names),
    }


def check_same_bytes(writing: str, names: dict[str, Any]) -> None:
    """Check that a contestant does the work that it is timed for."""
    scope = dict(names)
    exec(writing, scope)  # noqa: S102 - a statement of this file
    if bytes(scope["written"]) != names["data"]:
        raise SystemExit(f"{writing!r} does not write the same bytes")


def measured(row: Row) -> dict[str, Any]:
    data = encode(row.message, row.version)
    seconds = best_times(
        our_contestants(row, data) | kio_contestants(row, data) | kafka_python_contestants(row, data)
    )
    encode_ratio = seconds["kio encode"] / seconds["encode"]
    decode_ratio = seconds["decode"] / seconds["kio decode"]
    return {
        "label": row.label,
        "bytes": len(data),
        "microseconds": {name: round(value * 1e6, 3) for name, value in seconds.items()},
        "encode_times_as_fast_as_kio": round(encode_ratio, 2),
        "encode_target_met": encode_ratio >= ENCODE_TARGET,
        "decode_time_in_kio_times": round(decode_ratio, 2),
        "decode_with_lookup_in_kio_times": round(seconds["decode()"] / seconds["kio decode"], 2),
        "decode_target_met": decode_ratio <= DECODE_TARGET if row.decode_target else None,
    }


def measured_rewrite() -> dict[str, Any]:
    names = {
        "body": encode(metadata(3, 10, 100), 12),
        "rewrite": rewrite_metadata_brokers,
        "address_of": lambda node_id, _host, _port: ("proxy", 9100 + node_id),
        "encode": encode,
        "decode": decode,
        "MetadataResponse": MetadataResponse,
    }
    seconds = best_times(
        {
            "rewrite": ("rewrite(body, 12, address_of)", names),
            "decode and encode": ("encode(decode(MetadataResponse, 12, body), 12)", names),
        }
    )
    ratio = seconds["decode and encode"] / seconds["rewrite"]
    return {
        "microseconds": {name: round(value * 1e6, 3) for name, value in seconds.items()},
        "times_as_fast": round(ratio, 1),
        "target_met": ratio >= REWRITE_TARGET,
    }


def verdict(met: bool | None) -> str:
    return {True: "pass", False: "MISS", None: ""}[met]


def print_table(results: list[dict[str, Any]], rewrite: dict[str, Any]) -> None:
    columns = "{:<40}{:>6} {:>8}{:>9}{:>9}{:>7} {:<5}{:>8}{:>10}{:>8}{:>9}{:>6} {}"
    print(f"times in microseconds; encode: at least {ENCODE_TARGET:g} times kio's speed; ", end="")
    print(f"decode: at most {DECODE_TARGET:g} times kio's time")
    heads = ("encode", "kio", "k-py", "ratio", "", "decode", "decode()", "kio", "k-py", "ratio", "")
    print(columns.format("message", "bytes", *heads))
    for result in results:
        times = {name: f"{value:.2f}" for name, value in result["microseconds"].items()}
        print(
            columns.format(
                result["label"],
                result["bytes"],
                times["encode"],
                times["kio encode"],
                times.get("kafka-python encode", "-"),
                f"{result['encode_times_as_fast_as_kio']:.1f}x",
                verdict(result["encode_target_met"]),
                times["decode"],
                times["decode()"],
                times["kio decode"],
                times.get("kafka-python decode", "-"),
                f"{result['decode_time_in_kio_times']:.2f}",
                verdict(result["decode_target_met"]),
            )
        )
    times = rewrite["microseconds"]
    print(
        f"Metadata address rewrite, 1000 partitions: {times['rewrite']:.1f}, decode and encode: "
        f"{times['decode and encode']:.0f}: {rewrite['times_as_fast']:.0f}x as fast (target "
        f"{REWRITE_TARGET:g}x) {verdict(rewrite['target_met'])}"
    )


def main() -> int:
    results = [measured(row) for row in rows()]
    rewrite = measured_rewrite()
    print_table(results, rewrite)
    REPORT.parent.mkdir(exist_ok=True)
    environment = {
        "python": f"{platform.python_implementation()} {platform.python_version()} ({platform.python_compiler()})",
        "machine": platform.machine(),
        **{package: package_version(package) for package in ("kio", "kafka-python", "msgspec")},
    }
    report = {"environment": environment, "messages": results, "metadata_address_rewrite": rewrite}
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
