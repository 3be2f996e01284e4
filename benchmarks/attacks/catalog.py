"""The attacks: each gets a scene, does its harm, mends what a person would mend, and returns what it saw."""

import contextlib
import struct
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AclOperation
from support.metadata_relay import MetadataRelay

from benchmarks.attacks import foreign_records
from benchmarks.attacks.admin_port import REQUESTS, answer
from benchmarks.attacks.foreign_records import DEEP, DEEPER, STRANGER, V1, Foreign
from benchmarks.attacks.lying_hook import LyingHook
from benchmarks.attacks.scene import Scene
from benchmarks.attacks.secured_log import PARTITIONS
from benchmarks.attacks.topic_changes import WRONG
from benchmarks.hostile import frame, text
from benchmarks.lib.wire import Line
from protocol_codecs import ApiKey
from translation.member_log.group_records import MOVE, group_key
from translation.member_log.records import MemberKey, encode_key, member_key, partition_of

LOOKS_FOR_S = 10.0
"""How long what was done has its effect before anything is counted."""
WITHDRAWN_S = 15.0
NOTICED_S = 75.0
RELAYED_S = 20.0
RULES, PATTERNS, NEW_IDS = 30_000, 800, 200
Seen = dict[str, Any]


@dataclass(frozen=True)
class Attack:
    """``options`` are those of the scene, made before it and ended after it."""

    of: str
    """Which point of the list it is."""
    name: str
    run: Callable[[Scene], Seen]
    options: Callable[[Path], contextlib.AbstractContextManager[Mapping[str, Any]]] = field(
        default=lambda _folder: contextlib.nullcontext({})
    )


def _write(*records: Foreign, scene: Scene) -> Seen:
    scene.writer.write(records)
    time.sleep(LOOKS_FOR_S)
    return {"records written": scene.writer.written}


def _written(*records: Foreign) -> Callable[[Scene], Seen]:
    return lambda scene: _write(*records, scene=scene)


def _forged(scene: Scene, make: Callable[[str, str, int], Foreign]) -> Seen:
    """Forge a record of the member that is timed, and tell what its client is answered."""
    key = member_key(scene.timed.group, scene.timed.member_id)
    scene.writer.write([make(key.group_id, key.member_id, _end_of(scene, key))])
    time.sleep(2 * LOOKS_FOR_S)
    return {}


def _end_of(scene: Scene, key: MemberKey) -> int:
    """The version that a record of this member may have: the end of its partition."""
    consumer = Consumer({"bootstrap.servers": scene.cluster.bootstrap, "group.id": "nobody", "log_level": 0})
    try:
        partition = TopicPartition(scene.topic.name, partition_of(key, PARTITIONS))
        return int(consumer.get_watermark_offsets(partition, timeout=30)[1])
    finally:
        consumer.close()


def _deep_snapshot(group: str, member: str, version: int) -> Foreign:
    return foreign_records.served(group, member, PARTITIONS, version=version, snapshot=b"\x91" * DEEPER)


def _huge_version(group: str, member: str, _version: int) -> Foreign:
    return foreign_records.served_with_version(group, member, 2**63, PARTITIONS)


def _no_session(group: str, member: str, version: int) -> Foreign:
    return foreign_records.served(group, member, PARTITIONS, version=version, session_timeout_ms=-1)


def _approve(scene: Scene) -> Seen:
    before = _move(scene)
    version = _end_of(scene, group_key(scene.stepped, MOVE).member)
    scene.writer.write([foreign_records.approved_move(scene.stepped, "1,100%", PARTITIONS, version)])
    time.sleep(LOOKS_FOR_S)
    return {"move before": before, "move after": _move(scene), "of the new protocol": _moved(scene)}


def _move(scene: Scene) -> str:
    for one in scene.replicas:
        with contextlib.suppress(OSError):
            if move := one.group(scene.stepped)["move"]:
                return str(move["text"])
    return "none"


def _moved(scene: Scene) -> int:
    """How many members of the stepped group are of the new protocol."""
    described = scene.kafka.describe(scene.stepped)
    return 0 if described is None else sum(one.member_type == "consumer" for one in described.members)


def flood(count: int) -> Callable[[Scene], Seen]:
    """Forge so many members."""

    def run(scene: Scene) -> Seen:
        before = scene.memory_mib()
        began = time.monotonic()
        scene.writer.write(foreign_records.members(count, PARTITIONS))
        took_s = time.monotonic() - began
        time.sleep(LOOKS_FOR_S)
        return {
            "records written": scene.writer.written,
            "written in s": round(took_s, 1),
            "memory before, MiB": before,
            "memory after, MiB": scene.memory_mib(),
            "/api/groups, s": [_seconds_of(f"{one.admin}/api/groups") for one in scene.replicas],
        }

    return run


def _seconds_of(url: str) -> float | None:
    began = time.monotonic()
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=60) as page:  # noqa: S310  our own
        page.read()
        return round(time.monotonic() - began, 2)
    return None


def _ask_hook(scene: Scene) -> Seen:
    time.sleep(2 * LOOKS_FOR_S)
    return {"move": _move(scene), "of the new protocol": _moved(scene)}


@contextlib.contextmanager
def _hook(folder: Path, *, lie: str) -> Iterator[Mapping[str, Any]]:  # noqa: ARG001
    with LyingHook(only=lie).running() as hook:
        yield {"stepped": True, "more": {"hook": {"url": hook.url}}}


@contextlib.contextmanager
def _approvals(folder: Path, *, has_key: bool = False) -> Iterator[Mapping[str, Any]]:
    options: dict[str, Any] = {"stepped": True, "more_policy": "approval: required"}
    if has_key:
        key = folder / "mac.key"
        key.write_bytes(b"k" * 32)
        options["fleet"] = {"mac_key_file": str(key)}
    yield options


class _Nameless:
    """A broker of the member log whose Metadata can be made to have no names of topics."""

    def __init__(self) -> None:
        self.relay: MetadataRelay

    @contextlib.contextmanager
    def options(self, _folder: Path, *, bootstrap: str) -> Iterator[Mapping[str, Any]]:
        host, _, port = bootstrap.rpartition(":")
        with MetadataRelay((host, int(port))) as self.relay:
            kafka = {
                "bootstrap.servers": self.relay.bootstrap,
                "topic.metadata.refresh.interval.ms": 500,
            }
            yield {"log_bootstrap": self.relay.bootstrap, "fleet": {"kafka": kafka}}

    def run(self, _scene: Scene) -> Seen:
        self.relay.names_topics = False
        time.sleep(RELAYED_S)
        self.relay.names_topics = True
        return {}


def _withdraw(right: AclOperation, scene: Scene) -> Seen:
    scene.topic.withdraw(right)
    time.sleep(WITHDRAWN_S)
    why = [_why_not_ready(one.admin) for one in scene.replicas]
    scene.topic.give_back(right)
    return {"said meanwhile": why}


def _why_not_ready(admin: str) -> str:
    try:
        with urllib.request.urlopen(f"{admin}/readyz", timeout=5):  # noqa: S310  our own
            return "ready"
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()[:200]
    except OSError as error:
        return str(error)


def _change(name: str, scene: Scene) -> Seen:
    scene.topic.set(name, WRONG[name])
    deadline = time.monotonic() + NOTICED_S
    noticed = False
    while not noticed and time.monotonic() < deadline:
        time.sleep(0.5)
        noticed = all(f"{name}={WRONG[name]}" in one.log.read_text() for one in scene.replicas)
    scene.topic.restore(name)
    return {"noticed": noticed}


def _make_again(scene: Scene) -> Seen:
    scene.topic.delete()
    scene.topic.make(**{"retention.ms": WRONG["retention.ms"]})
    return {}


def _rules(scene: Scene) -> Seen:
    rules = "".join(f'  - {{group: "rule-{number}", mode: observe}}\n' for number in range(RULES))
    return _reload(scene, rules)


def _patterns(scene: Scene) -> Seen:
    rules = "".join(
        f'  - {{pattern: "({number}|.*a.*b){{1,40}}x{number}", mode: observe}}\n'
        for number in range(PATTERNS)
    )
    seen = _reload(scene, rules)
    with Line(scene.replicas[0].bootstrap) as line:
        for number in range(NEW_IDS):
            line.exchange(_heartbeat((f"{number}-".encode() + b"ab" * 128)[:255]))
    return {**seen, "new ids": NEW_IDS}


def _reload(scene: Scene, rules: str) -> Seen:
    for one in scene.replicas:
        file = one.folder / "policy.yaml"
        file.write_text(file.read_text() + rules)
    time.sleep(LOOKS_FOR_S)
    return {}


def _heartbeat(group: bytes) -> bytes:
    """Heartbeat v0 of nobody."""
    return frame(ApiKey.HEARTBEAT, 0, text(group) + struct.pack(">i", 1) + text(b"nobody"))


def _no_text(scene: Scene) -> Seen:
    """Send an id that is no text to the broker and to a replica."""
    found = {}
    for where, address in (("straight", scene.kafka.bootstrap), ("through", scene.replicas[0].bootstrap)):
        with Line(address) as line:
            try:
                answered = line.exchange(_heartbeat(b"translate-\xff\xfe"))
            except OSError:
                found[where] = "the connection was closed"
            else:
                found[where] = f"error {int.from_bytes(answered[8:10])}"
    return found


def _ask_admin(what: str, scene: Scene) -> Seen:
    return {"status": [answer(one.admin_port, REQUESTS[what]) for one in scene.replicas]}


def attacks(members: int, bootstrap: str) -> list[Attack]:
    """Return all of them. ``bootstrap`` is that of a broker without authentication."""
    nameless = _Nameless()
    member = member_key("payments", "epochgate-1")
    where = partition_of(member, PARTITIONS)
    deep = Foreign(encode_key(member, STRANGER), b"\x81\xa1x" + b"\x91" * DEEP, V1, where)
    rights = (AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE)
    return [
        Attack("1", "a key of invalid UTF-8", _written(Foreign(b"\x93\xa1\xff\xa1m\xc4\x01w", b"\x80"))),
        Attack("1", "a record without the header v", _written(Foreign(b"\xff", b"x", []))),
        Attack("1", f"a value nested {DEEP:,} deep", _written(deep)),
        Attack("1", f"a snapshot nested {DEEPER:,} deep", partial(_forged, make=_deep_snapshot)),
        Attack("1", "served with version 2^63", partial(_forged, make=_huge_version)),
        Attack("1", "served with a session of -1 ms", partial(_forged, make=_no_session)),
        Attack("1", "a forged approval", _approve, _approvals),
        Attack("1", "a forged approval, with a key", _approve, partial(_approvals, has_key=True)),
        Attack("1", f"{members:,} forged members", flood(members)),
        *(
            Attack("2", f"hook: {lie}", _ask_hook, partial(_hook, lie=lie))
            for lie in ("nested 2,000 deep", "a veto behind a byte order mark", "a body false")
        ),
        Attack(
            "3", "topics without a name", nameless.run, partial(nameless.options, bootstrap=bootstrap)
        ),
        *(Attack("5", f"{right.name} withdrawn", partial(_withdraw, right)) for right in rights),
        *(Attack("5", f"{name} changed", partial(_change, name)) for name in WRONG),
        Attack("5", "topic made again", _make_again),
        Attack("6", f"{RULES:,} rules", _rules),
        Attack("6", f"{PATTERNS} heavy patterns", _patterns),
        Attack("6", "an id that is no text", _no_text),
        *(
            Attack("7", what, partial(_ask_admin, what))
            for what in ("another host's name", "two equal Content-Length")
        ),
    ]  # fmt: skip
