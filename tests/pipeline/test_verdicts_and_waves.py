"""Judging groups, planning waves, and checking records: no Spark."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.readiness import policy_file, records
from pipeline.readiness.cluster import BrokerSettings
from pipeline.readiness.output import NOT_READY, READY, REMARK
from pipeline.readiness.verdicts import judge
from pipeline.readiness.waves import Candidate, Limits, plan
from protocol_codecs.classic_clients import KNOWN_ASSIGNORS
from protocol_codecs.records import (
    CoordinatorRecord,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from proxy.config.loader import load_policy
from translation.policy.assignors import SERVER_ASSIGNORS

GROUP = {
    "group_id": "g",
    "kind": "classic",
    "protocol_type": "consumer",
    "members": 1,
    "unreadable_records": 0,
    "software": None,
}
MEMBER = {
    "member_id": "m", "instance_id": None, "client_id": "app", "protocol": "classic", "session_timeout_ms": 10_000,
    "embedded_version": 1, "assignors": ["range"], "problem": None, "user_data_bytes": 0,
    "assignment_user_data_bytes": 0, "rack": None, "lacks_owned_partitions": False,
}  # fmt: skip
BOTH = {"user_data_bytes": 8, "assignment_user_data_bytes": 8}


def codes(*members: dict[str, Any], **group: Any) -> tuple[str, list[str]]:
    judged = [{**MEMBER, "member_id": f"m{number}", **member} for number, member in enumerate(members)]
    verdict, reasons = judge({**GROUP, **group}, judged, BrokerSettings(group_consumer_max_size=100))
    return verdict, [reason.code for reason in reasons]


def test_the_assignors_are_those_that_the_proxy_translates() -> None:
    assert frozenset(SERVER_ASSIGNORS) == KNOWN_ASSIGNORS


@pytest.mark.parametrize(
    ("members", "group", "verdict", "reasons"),
    [
        ([{}], {}, READY, []),
        ([], {"members": 0}, READY, []),
        ([{}], {"protocol_type": "connect"}, NOT_READY, ["connect"]),
        ([{}], {"protocol_type": "sr"}, NOT_READY, ["schema_registry"]),
        ([{}], {"protocol_type": "mine"}, NOT_READY, ["protocol_type"]),
        ([], {"kind": "share", "protocol_type": ""}, NOT_READY, ["group_type"]),
        ([], {"kind": "streams", "protocol_type": ""}, NOT_READY, ["group_type"]),
        ([{"protocol": "consumer"}], {"kind": "consumer"}, REMARK, ["already_new"]),
        ([{"protocol": "consumer"}, {}], {"kind": "consumer"}, REMARK, ["already_new", "mixed_protocols"]),
        ([{"assignors": ["mine"]}], {}, NOT_READY, ["assignor"]),
        ([{"assignors": ["stream"], **BOTH}], {}, NOT_READY, ["streams"]),
        ([{"assignors": ["mine"], "user_data_bytes": 8}], {}, NOT_READY, ["subscription_user_data"]),
        ([{"assignors": ["mine"], **BOTH}], {}, NOT_READY, ["assignment_user_data"]),
        ([{"assignors": ["sticky"], "user_data_bytes": 8}], {}, READY, []),
        ([{"rack": "a"}], {}, REMARK, ["racks"]),
        ([{"rack": "a", "assignors": ["roundrobin"]}], {}, READY, []),
        ([{"user_data_bytes": 1, "assignors": ["rack-affinity"]}], {}, REMARK, ["racks"]),
        ([{}, {"assignors": ["sticky"]}], {}, REMARK, ["mixed_assignors"]),
        ([{"problem": "cut off"}], {}, NOT_READY, ["embedded_unreadable"]),
        ([{"instance_id": "i"}, {"instance_id": "i"}], {}, NOT_READY, ["static_duplicates"]),
        ([{}, {"embedded_version": 3}], {}, REMARK, ["embedded_versions"]),
        ([{"embedded_version": 4}], {}, REMARK, ["embedded_version"]),
        ([{"session_timeout_ms": 60_000}], {}, REMARK, ["session_timeout"]),
        ([BOTH], {}, REMARK, ["assignment_user_data"]),
        ([{"client_id": "sarama"}, {"client_id": "sarama"}], {}, REMARK, ["client_software"]),
        ([{}], {"software": ["apache-kafka-java/3.7.0", "librdkafka/2.8.0"]}, READY, []),
        ([{}], {"software": ["sarama/1.45", "sarama/1.46"]}, REMARK, ["client_software"]),
        ([{"client_id": "kafkajs"}], {"software": ["kgo/1.18"]}, REMARK, ["client_software"] * 2),
        ([{}], {"members": 101}, NOT_READY, ["too_large"]),
        ([{}], {"unreadable_records": 2}, NOT_READY, ["unreadable_records"]),
        ([], {"kind": "simple", "protocol_type": ""}, REMARK, ["simple"]),
    ],
)
def test_verdicts(members: list[Any], group: dict[str, Any], verdict: str, reasons: list[str]) -> None:
    assert codes(*members, **group) == (verdict, reasons)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("bidirectional", (READY, [])),
        ("UPGRADE", (REMARK, ["migration_policy"])),
        ("downgrade", (NOT_READY, ["migration_policy"])),
        ("disabled", (NOT_READY, ["migration_policy"])),
    ],
)
def test_the_brokers_migration_policy_decides_for_groups_with_members(
    policy: str, expected: tuple[str, list[str]]
) -> None:
    broker = BrokerSettings(group_consumer_migration_policy=policy)
    verdict, reasons = judge(GROUP, [MEMBER], broker)
    assert (verdict, [reason.code for reason in reasons]) == expected
    assert judge({**GROUP, "members": 0}, [], broker) == (READY, [])


def test_an_assignor_can_be_allowed() -> None:
    member = {**MEMBER, "assignors": ["mine"]}
    assert judge(GROUP, [member], BrokerSettings(), frozenset({"mine"})) == (READY, [])


@pytest.mark.parametrize("sent", [{"user_data_bytes": 8}, BOTH])
def test_an_allowed_assignor_with_user_data_needs_more_than_that(sent: dict[str, Any]) -> None:
    member = {**MEMBER, "assignors": ["mine"], **sent}
    verdict, reasons = judge(GROUP, [member], BrokerSettings(), frozenset({"mine"}))
    assert verdict == NOT_READY
    assert "; " in reasons[0].text, "the options follow"


def test_kafka_streams_can_not_be_allowed() -> None:
    member = {**MEMBER, "assignors": ["stream"], **BOTH}
    verdict, reasons = judge(GROUP, [member], BrokerSettings(), frozenset({"stream"}))
    assert (verdict, [reason.code for reason in reasons]) == (NOT_READY, ["streams"])
    assert "group.protocol=streams" in reasons[0].text


def test_the_policy_files_allow_what_the_verdicts_allowed(tmp_path: Path) -> None:
    places = list(plan([Candidate("g", 1, None, READY)], Limits(groups=4, members=30)))
    ((name, content),) = policy_file.contents(places, assignors_allowed=frozenset({"no", "mine"}))
    (tmp_path / name).write_bytes(content)
    assert load_policy(tmp_path / name).assignors_allowed == ("mine", "no")
    ((_, content),) = policy_file.contents(places)
    assert b"assignors_allowed" not in content


def test_waves_grow_and_keep_their_limits() -> None:
    candidates = [Candidate(f"g{number}", number % 7, None, READY) for number in range(100)]
    places = list(plan(candidates, Limits(groups=4, members=30)))

    sizes = [sum(place.wave == wave for place in places) for wave in range(1, places[-1].wave + 1)]
    assert sorted(place.candidate.group_id for place in places) == sorted(one.group_id for one in candidates)
    assert sizes[0] == 4
    for wave, size in enumerate(sizes):
        assert size <= 4 * 2**wave
        assert sum(place.candidate.members for place in places if place.wave == wave + 1) <= 30 * 2**wave
    assert [place.candidate.members for place in places] == sorted(one.members for one in candidates)


def test_idle_groups_move_before_busy_ones_and_a_huge_group_has_a_wave_of_its_own() -> None:
    candidates = [
        Candidate("busy", 2, 900, READY),
        Candidate("idle", 2, 100, READY),
        Candidate("huge", 500, 1, READY),
    ]
    places = list(plan(candidates, Limits(groups=10, members=5)))
    assert [(place.candidate.group_id, place.wave) for place in places] == [
        ("idle", 1),
        ("busy", 1),
        ("huge", 2),
    ]


@pytest.mark.parametrize(
    "name", ["no", "1:30", 'quote"d', "back\\slash", "päymënts 😀", "a: b # c", " ", "\x7f\x1b\u2028"]
)
def test_any_group_id_can_stand_in_the_policy(name: str) -> None:
    assert yaml.safe_load(policy_file.quoted(name)) == name


OFFSET = CoordinatorRecord(
    OffsetCommitKey(group="g", topic="t", partition=1),
    OffsetCommitValue(offset=5, metadata="", commit_timestamp=1),
)
KEY, VALUE = encode_key(OFFSET.key), encode_value(OFFSET) or b""


@pytest.mark.parametrize(
    ("key", "value", "group", "reason"),
    [
        (KEY, VALUE, "g", None),
        (KEY, None, "g", None),
        (KEY, VALUE[:-3], "g", "malformed OffsetCommitValue v4"),
        (KEY, b"\x00\x09" + VALUE[2:], "g", "OffsetCommitValue has no version 9"),
        (KEY, b"", "g", "0 bytes in all"),
        (KEY[:-2], VALUE, None, "malformed OffsetCommitKey v0"),
        (b"\x00", VALUE, None, "the key is cut off"),
        (None, VALUE, None, "the record has no key"),
        (b"\x00\x63" + KEY[2:], VALUE, None, "record type 99 is unknown"),
        (
            b"\x00\x0b" + encode_key(GroupMetadataKey(group="shared"))[2:],
            b"\x00\x09",
            "shared",
            "no version 9",
        ),
        (b"\x00\x09" + encode_key(GroupMetadataKey(group="old"))[2:], b"anything", "old", None),
        (b"\x00\x11" + encode_key(GroupMetadataKey(group="stream"))[2:], b"anything", "stream", None),
    ],
)
def test_every_record_is_read_or_has_a_reason(
    key: bytes | None, value: bytes | None, group: str | None, reason: str | None
) -> None:
    _, found_group, found_reason = records.check(key, value)
    assert found_group == group
    assert (found_reason is None) == (reason is None)
    assert (reason or "") in (found_reason or "")
