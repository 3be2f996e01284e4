"""Several replicas, asked together: what one sees adds to what another does, and who was not asked is not forgotten."""

import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from proxy.admin.preflight_report import Status
from proxy.groups.fleet_view import FleetMember, FleetReplica, FleetView, GroupFleet
from proxy.groups.snapshot import GroupView, Snapshot
from proxy.preflight import ask_proxies as module
from proxy.preflight.ask_proxies import MOST_REPLICAS, ask_proxies, together
from proxy.preflight.facts import Facts, Unknown
from proxy.preflight.judge import judge
from tests.proxy.preflight.facts import UNKNOWN, classic, facts, joined, member, seen, snapshot

TIMEOUT_S = 5.0
A, B, C = "replica-a", "replica-b", "replica-c"
GROUP = classic(members=3)
"""Its members are g-m0, g-m1 and g-m2."""


def fleet(here: str, *others: str, silent: tuple[str, ...] = (), **changed) -> FleetView:
    replicas = tuple(
        FleetReplica(id=name, name=name, heard_at=0, silent=name in silent, members=1, here=name == here)
        for name in (here, *others)
    )
    known = {
        "state": "ready",
        "reason": None,
        "partitions": 4,
        "partitions_away": 0,
        "newest_record_at": 0,
        "unresolved": 0,
        "oldest_unresolved_s": 0,
        "members": 1,
        "replicas": replicas,
        "replicas_left_out": 0,
    }
    return FleetView(**{**known, **changed})


def elsewhere(*member_ids: str, left_out: int = 0) -> GroupFleet:
    members = tuple(
        FleetMember(
            id=one, instance=None, replica=B, replica_id=B, state="served", generation=1, written_at=0
        )
        for one in member_ids
    )
    return GroupFleet(members=len(members), served_by=(), elsewhere=members, left_out=left_out)


def view(here: str, *others: str, group: GroupView | None = None, **changed) -> Snapshot:
    return snapshot(
        group or seen("g", member("g-m0")), replicas=(here,), fleet=fleet(here, *others), **changed
    )


def past(known: Facts):
    return [one for one in judge(known).findings if one.check == "past_the_proxy"]


def status(known: Facts, check: str) -> Status:
    return next(one.status for one in judge(known).checks if one.check == check)


def test_members_that_other_replicas_serve_come_through_the_proxy():
    group = seen("g", member("g-m0"), fleet=elsewhere("g-m1", "g-m2"))
    known = facts(groups=(GROUP,), proxy=view(A, group=group))
    assert past(known) == []


def test_members_are_put_together_over_replicas():
    snapshots = [
        view(A, B, C, group=seen("g", member("g-m0"), fleet=elsewhere("g-m1", "g-m2", "g-m3"))),
        view(B, A, C, group=seen("g", member("g-m1"), fleet=elsewhere("g-m0", "g-m2"))),
    ]
    (group,) = together(snapshots).groups
    assert [one.id for one in group.members] == ["g-m0", "g-m1"]
    assert group.fleet is not None
    assert sorted(one.id for one in group.fleet.elsewhere) == ["g-m2", "g-m3"]
    merged = together(snapshots).fleet
    assert merged is not None
    assert {one.id: one.here for one in merged.replicas} == {A: True, B: True, C: False}


def test_the_member_log_is_as_healthy_as_where_it_is_the_least():
    away = msgspec.structs.replace(view(B, A), fleet=fleet(B, A, state="away"))
    merged = together([view(A, B), away, view(C, A, B)]).fleet
    assert merged is not None
    assert merged.state == "away"


def test_replicas_without_a_log_are_put_together_as_before():
    merged = together([snapshot(seen("a")), snapshot(seen("b"))])
    assert [one.id for one in merged.groups] == ["a", "b"]
    assert merged.fleet is None


def test_an_instance_id_that_two_processes_share_at_two_replicas_is_found():
    """Each replica alone sees no more than a rolling restart."""
    views = [
        view(name, group=seen(events=tuple(joined(f"{name}-{n}", "i", 60 * n) for n in range(2))))
        for name in (A, B)
    ]
    alone, both = facts(proxy=views[0]), facts(proxy=together(views))
    assert status(alone, "static_duplicates") is Status.PASSED
    assert status(both, "static_duplicates") is Status.FOUND


def test_what_comes_past_is_not_known_while_replicas_are_not_asked():
    known = facts(groups=(GROUP,), proxy=view(A, B), complete_proxy=UNKNOWN)
    (finding,) = past(known)
    assert finding.unknown
    assert finding.groups == ("g",)
    assert "whether 2 members" in finding.what
    for check in ("past_the_proxy", "static_duplicates", "client_sessions", "proxy_state"):
        assert status(known, check) is Status.UNKNOWN


def test_what_comes_past_is_not_known_where_a_snapshot_leaves_members_out():
    group = seen("g", member("g-m0"), fleet=elsewhere("g-m1", left_out=5))
    (finding,) = past(facts(groups=(GROUP,), proxy=view(A, group=group)))
    assert finding.unknown


Serve = Callable[[str, Snapshot], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves a snapshot as a proxy's admin port does, at an address of loopback; the port is the same for all."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = []

    def start(host: str, told: Snapshot) -> str:
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = msgspec.json.encode(told)
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer((host, port), Answer)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        started.append((server, thread))
        return f"http://{host}:{port}"

    yield start
    for server, thread in started:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_replica_that_does_not_answer_hides_nothing_of_the_others(serve):
    found = ask_proxies([serve("127.0.0.1", view(A)), "http://127.0.0.1:1"], None, TIMEOUT_S)
    assert isinstance(found.snapshot, Snapshot)
    assert found.lacks is not None
    assert "127.0.0.1:1" in found.lacks.why


def test_replicas_of_the_log_that_were_not_asked_are_named(serve):
    told = msgspec.structs.replace(view(A), fleet=fleet(A, B, C, silent=(C,)))
    found = ask_proxies([serve("127.0.0.1", told)], None, TIMEOUT_S)
    assert found.lacks is not None
    assert found.lacks.why.endswith("were not asked: replica-b")  # the other is gone
    assert "--replicas" in found.lacks.do


def test_every_address_of_a_name_is_asked_in_one_family(serve, monkeypatch):
    url = serve("127.0.0.1", view(A, B))
    serve("127.0.0.2", view(B, A))
    addresses = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", 0)),
    ]
    with monkeypatch.context() as patched:
        patched.setattr(module.socket, "getaddrinfo", lambda *_, **__: addresses)
        service = url.replace("127.0.0.1", "replicas.example")
        named = module._addresses(service)
    assert named == [url, url.replace("127.0.0.1", "127.0.0.2")]
    found = ask_proxies(named, None, TIMEOUT_S)
    assert isinstance(found.snapshot, Snapshot)
    assert found.snapshot.replicas == (A, B)
    assert found.lacks is None


@pytest.mark.parametrize("name", ["no-such-host.invalid", "a..b", "x" * 300])
def test_a_name_without_an_address_is_unknown(name):
    found = ask_proxies([], f"http://{name}:9080", TIMEOUT_S)
    assert isinstance(found.snapshot, Unknown)
    assert name in found.snapshot.why


def test_a_name_with_more_addresses_than_replicas_anybody_has_is_not_asked_to_the_end(serve, monkeypatch):
    url = serve("127.0.0.1", view(A))
    asked = []

    def fetch(one: str, *_: object) -> Snapshot:
        asked.append(one)
        return view(A)

    monkeypatch.setattr(module, "_fetch", fetch)
    found = ask_proxies([f"{url}/{number}" for number in range(MOST_REPLICAS + 1)], None, TIMEOUT_S)
    assert len(asked) == MOST_REPLICAS
    assert found.lacks is not None


def test_nobody_is_asked_if_nobody_is_named():
    assert ask_proxies([], None, TIMEOUT_S).snapshot is None
