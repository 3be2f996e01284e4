"""Measures the latency that the proxy adds: to Heartbeats, JoinGroups, and a small relayed request.

A Heartbeat is one of a translated group (direct: a native member's), or one of a group that passes through. The
JoinGroup is a new member's, which brokers and the proxy answer with a member id at once (KIP-394): the first one of a
connection, for which the proxy asks the broker whether its sender may read the group, and later ones.

Each round sends one request each way, in turn, so that whatever else the machine does hits all alike. The client is one
thread with blocking sockets; the times are those of the whole exchange as the client sees it. A bare relay on trio
(``benchmarks.lib.trio_relay``) shows what of it any process takes on this event loop.
"""

import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.lib.test_bed import Gateway
from benchmarks.lib.wire import (
    ClassicMember,
    Line,
    NativeMember,
    coordinator,
    join_frame_message,
    small_request_frame,
)
from protocol_codecs import ApiKey
from protocol_codecs.messages.api_versions import ApiVersionsRequest

ROUNDS = 6000
WARM_UP = 800
ROUNDS_FOR_A_JOIN = 10
"""A first JoinGroup takes a connection of its own, so there are fewer of them."""
TARGET_RATIO_OF_A_FLEET = 1.05
"""How long a Heartbeat through one replica of a fleet may take, where it takes 1 through the only process."""
TARGETS_US = {"request": 150.0, "heartbeat": 150.0, "heartbeat_of_several": 150.0, "passing_heartbeat": 50.0}
"""The target: the most that may be added to the median."""
_MEMBER_ID_REQUIRED = (79).to_bytes(2, "big")
DIRECT, PROXIED, BY_TRIO = "direct", "proxied", "trio"
ONLY_PROCESS = "only process"
Name = TypeVar("Name", bound=Hashable)


def measure(
    bootstrap: str, sole: Gateway, several: Gateway, relays: Mapping[str, str], rounds: int = ROUNDS
) -> dict[str, Any]:
    """Measure through the only process, and through one of several, which has more to do at each Heartbeat.

    ``relays`` are the addresses of plain relays in front of the same broker, by their names.
    """
    topic = f"latency-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    translated = heartbeat_of_new_member(sole.bootstrap, ClassicMember, f"translated-{topic}", topic)
    of_several = heartbeat_of_new_member(
        several.bootstrap, ClassicMember, f"translated-several-{topic}", topic
    )
    native = heartbeat_of_new_member(bootstrap, NativeMember, f"native-{topic}", topic)
    exchanges: dict[tuple[str, str], Callable[[], None]] = {
        ("request", DIRECT): small_request(Line(leader(bootstrap)), topic),
        ("request", PROXIED): small_request(Line(leader(sole.bootstrap)), topic),
        ("heartbeat", DIRECT): native,
        ("heartbeat", PROXIED): translated,
    }
    for name, address in relays.items():
        exchanges["request", name] = small_request(Line(address), topic)
    cpu_before = sole.cpu_s()
    times = in_turn(exchanges, rounds)
    cpu_us = (sole.cpu_s() - cpu_before) / (rounds + WARM_UP) / 2 * 1e6
    # Measured separately: with one more process taking turns, the others find less in the processors' caches.
    exchanges = {("heartbeat_of_several", DIRECT): native, ("heartbeat_of_several", PROXIED): of_several}
    times |= in_turn(exchanges, rounds)
    passing = f"passing-{topic}"
    exchanges = {
        ("passing_heartbeat", DIRECT): heartbeat_of_new_member(
            bootstrap, ClassicMember, f"{passing}-direct", topic
        ),
        ("passing_heartbeat", PROXIED): heartbeat_of_new_member(
            sole.bootstrap, ClassicMember, passing, topic
        ),
    }
    times |= in_turn(exchanges, rounds)
    times |= joins({DIRECT: bootstrap, PROXIED: sole.bootstrap}, topic, rounds // ROUNDS_FOR_A_JOIN)
    result: dict[str, Any] = {"rounds": rounds, "proxy_cpu_us_per_request": round(cpu_us, 1)}
    for what in dict.fromkeys(what for what, _ in times):
        ways = {way: quantiles(taken) for (one, way), taken in times.items() if one == what}
        added = {
            way: {q: round(ways[way][q] - ways[DIRECT][q], 1) for q in ("p50", "p99")}
            for way in ways
            if way != DIRECT
        }
        target = TARGETS_US.get(what)
        met = target is None or added[PROXIED]["p50"] < target
        result[what] = {**ways, "added": added, "target_us": target, "met": met}
    return result


def measure_fleet(sole: Gateway, fleet: Sequence[Gateway], rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure a translated Heartbeat through the only process and through the first replica of a ``fleet``, in turn.

    The member of the fleet is served, its connection confirmed, and all replicas run. Who goes first changes in the
    middle, because whoever comes later in a round finds colder caches.
    """
    topic = f"latency-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": sole.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    ways = {
        way: heartbeat_of_new_member(gateway.bootstrap, ClassicMember, f"translated-{name}-{topic}", topic)
        for way, name, gateway in ((ONLY_PROCESS, "sole", sole), (PROXIED, "fleet", fleet[0]))
    }
    exchanges = {("heartbeat_in_a_fleet", way): exchange for way, exchange in ways.items()}
    halves = [in_turn(dict(order), rounds // 2) for order in (exchanges.items(), reversed(exchanges.items()))]
    times = {name: [*halves[0][name], *halves[1][name]] for name in exchanges}
    result: dict[str, Any] = {way: quantiles(taken) for (_, way), taken in times.items()}
    result["ratio"] = round(result[PROXIED]["p50"] / result[ONLY_PROCESS]["p50"], 3)
    return {
        **result,
        "rounds": rounds,
        "target": TARGET_RATIO_OF_A_FLEET,
        "met": result["ratio"] <= TARGET_RATIO_OF_A_FLEET,
    }


def heartbeat_of_new_member(
    bootstrap: str, kind: type[ClassicMember | NativeMember], group: str, topic: str
) -> Callable[[], None]:
    """Return the heartbeat of a new member that is alone in its group and has settled."""
    member = kind(Line(coordinator(bootstrap, group)), group, topic)
    if isinstance(member, ClassicMember):
        member.join()
    member.settle()
    return heartbeat_of(member)


def joins(addresses: Mapping[str, str], topic: str, rounds: int) -> dict[tuple[str, str], list[float]]:
    """Return the microseconds of a connection's first and next JoinGroup, by each way's bootstrap address."""
    times: dict[tuple[str, str], list[float]] = {}
    warm_up = WARM_UP // ROUNDS_FOR_A_JOIN
    for way, bootstrap in addresses.items():
        group = f"translated-joins-{way}-{topic}"
        address = coordinator(bootstrap, group)
        times["first_join", way], times["next_join", way] = [], []
        frame: bytes | None = None
        for n in range(rounds + warm_up):
            with Line(address) as line:
                line.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
                frame = frame or line.frame(
                    ApiKey.JOIN_GROUP, 5, join_frame_message(group, topic, "", 45_000)
                )
                for what in ("first_join", "next_join"):
                    started = time.perf_counter()
                    answer = line.exchange(frame)
                    if n >= warm_up:
                        times[what, way].append((time.perf_counter() - started) * 1e6)
                    if answer[12:14] != _MEMBER_ID_REQUIRED:
                        raise RuntimeError(f"a JoinGroup was answered {answer!r}")
    return times


def leader(bootstrap: str) -> str:
    """Return a node's own address: the bootstrap of a one-node cluster may be another port."""
    return coordinator(bootstrap, "any")


def in_turn(
    exchanges: Mapping[Name, Callable[[], None]], rounds: int, warm_up: int = WARM_UP
) -> dict[Name, list[float]]:
    """Microseconds of each exchange, which take turns for so many rounds and some more to warm up."""
    times: dict[Name, list[float]] = {name: [] for name in exchanges}
    for n in range(rounds + warm_up):
        for name, exchange in exchanges.items():
            started = time.perf_counter()
            exchange()
            if n >= warm_up:
                times[name].append((time.perf_counter() - started) * 1e6)
    return times


def quantiles(times: list[float]) -> dict[str, float]:
    """Median and 99th percentile."""
    cuts = statistics.quantiles(times, n=100)
    return {"p50": round(cuts[49], 1), "p99": round(cuts[98], 1)}


def small_request(line: Line, topic: str) -> Callable[[], None]:
    """Return ListOffsets of one partition: relayed by its header, and answered by a broker from memory."""
    frame = small_request_frame(line.client_id, topic)
    return lambda: _checked(line.exchange(frame), 14 + 4)


def heartbeat_of(member: ClassicMember | NativeMember) -> Callable[[], None]:
    frame = member.heartbeat_frame()
    native = isinstance(member, NativeMember)

    def exchange() -> None:
        answer = member.line.exchange(frame)
        at = 13 if native else 12  # behind size, correlation id, (tags,) throttle time
        if answer[at : at + 2] != b"\0\0":
            raise RuntimeError(f"a heartbeat was answered {answer!r}")

    return exchange


def _checked(answer: bytes, least: int) -> None:
    if len(answer) < least:
        raise RuntimeError(f"answered {answer!r}")
