"""What clients make up is bounded wherever it is kept or shown, and no flood pushes out what is in use."""

import io
import logging
from collections import Counter

import msgspec
import pytest
import structlog
import trio

from proxy.admin.snapshot_encoding import encode_cooperatively
from proxy.admin.text_format import render_metrics
from proxy.config.schema import Config, Listener, Log, Upstream, Visibility
from proxy.groups.event_bounds import TRUNCATED, EventBounds, bounded_shadow, truncate
from proxy.groups.event_dispatcher import EventDispatcher
from proxy.groups.group_metrics import GroupLabels
from proxy.groups.group_registry import GroupRegistry
from proxy.groups.observability import Observability
from proxy.groups.snapshot import BrokerView
from proxy.journal.journal import estimated_bytes
from proxy.metrics.bounds import Bound
from proxy.metrics.registry import Metrics
from proxy.runtime.log_setup import configure, count_suppressed_lines, log_suppressed_lines
from proxy.runtime.wall_clock import WallClock
from proxy.shadow.view import MemberForecast, ShadowView, Span
from tests.proxy.groups.events import MICRO, changed, event, life, topic
from translation.actions import ConnectWorker, Event, EventKind
from translation.partitions import TopicPartitionSet
from translation.policy.policy import Mode, Policy, Rule

LONG = "x" * 30_000
FLOOD = 100_000
NOW_US = 1_000_000 * MICRO


@pytest.fixture(autouse=True)
def _log_as_it_was():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def passed(group: str, reason: str = "protocol type is 'connect', not 'consumer'", **fields) -> Event:
    return Event(kind=EventKind.PASSED_THROUGH, group_id=group, reason=reason, **fields)


class Watch:
    """A book with these limits, and how often each was reached."""

    def __init__(self, **limits: int) -> None:
        self.hits: Counter[Bound] = Counter()
        self.on_drop: list[str] = []
        self.registry = GroupRegistry(
            Policy(default=Mode.TRANSLATE),
            on_drop=self.on_drop.append,
            limits=Visibility(**limits),
            hit=lambda bound: self.hits.update([bound]),
        )

    def record(self, *events: Event) -> None:
        for one in events:
            self.registry.record(one, NOW_US)


# -- texts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "g", "x" * 255, "…", "ü" * 255])
def test_a_short_text_stays(text):
    assert truncate(text, 255) is text


def test_long_texts_are_cut_and_stay_different():
    one, other = truncate(LONG + "a", 255), truncate(LONG + "b", 255)
    assert len(one) == len(other) == 255
    assert one != other
    assert one.startswith("xxx")
    assert TRUNCATED in one
    assert truncate(one, 255) != one, "nobody can be called what another one is cut to"


def test_an_event_is_cut_wherever_a_client_may_write():
    hits: Counter[Bound] = Counter()
    bounds = EventBounds(Visibility(partitions_of_event=100), lambda bound: hits.update([bound]))
    texts = ("member_id", "instance_id", "client_id", "client_host", "software", "reason")
    hostile = event(
        EventKind.JOINED,
        LONG,
        LONG,
        partitions=topic(*range(101)),
        owned=topic(*range(101)),
        worker=ConnectWorker(LONG, 7, LONG, LONG),
        **dict.fromkeys(texts[1:], LONG),
    )
    truncated = bounds.truncated(hostile)
    assert {len(getattr(truncated, name)) for name in ("group_id", *texts)} == {255}
    assert (truncated.partitions, truncated.owned) == ((), None)
    assert estimated_bytes(truncated) < 12_000 < estimated_bytes(hostile)
    worker = truncated.worker
    assert (len(worker.url), len(worker.leader), len(worker.leader_url)) == (255, 255, 255)
    assert hits == {Bound.TEXT: 8, Bound.PARTITIONS_OF_EVENT: 2}
    (one,) = bounds.truncated(event(EventKind.JOINED, owned=topic(1, name=LONG))).owned
    assert len(one.topic) == 255


def test_a_usual_event_is_not_touched():
    told = event(EventKind.JOINED, owned=topic(0, 1), partitions=topic(1))
    assert EventBounds(Visibility(), lambda _: pytest.fail("nothing is too large")).truncated(told) is told


# -- the book --------------------------------------------------------------------------------------------------


def test_new_groups_do_not_push_out_those_that_are_in_use():
    watch = Watch(groups=10, groups_without_members=5)
    watch.record(*life("m", group="live"), *life("m", group="emptied"))
    watch.record(changed("Stable", "Absent", "m", group="emptied"))
    watch.record(*(passed(f"g-{number}") for number in range(1000)))
    assert list(watch.registry.groups)[:2] == ["live", "emptied"]
    assert len(watch.registry.groups) == 6
    assert len(watch.on_drop) == watch.hits[Bound.GROUPS_WITHOUT_MEMBERS] == 996
    watch.record(*(one for number in range(20) for one in life("m", group=f"live-{number}")))
    assert sorted(watch.registry.groups) == sorted(["live", *(f"live-{number}" for number in range(9))])
    assert watch.hits[Bound.GROUPS] > 0


def test_a_group_that_gets_a_member_is_not_vacant_any_more():
    watch = Watch(groups_without_members=2)
    watch.record(passed("a"), *life("m", group="a"), *(passed(f"g-{number}") for number in range(9)))
    assert "a" in watch.registry.groups


def test_members_are_bounded_in_a_group_and_in_all():
    watch = Watch(members_of_group=3, members=5)
    for group in ("a", "b"):
        watch.record(*(one for number in range(10) for one in life(f"m-{number}", group=group)))
    assert [len(group.members) for group in watch.registry.groups.values()] == [3, 2]
    assert watch.hits[Bound.MEMBERS_OF_GROUP] == 7 * 4
    assert watch.hits[Bound.MEMBERS] == 8 * 4
    assert all(len(group.rebalance.members) <= 3 for group in watch.registry.groups.values())
    watch.record(changed("Stable", "Absent", "m-0", group="a"))
    watch.record(*life("later", group="b"))
    assert "later" in watch.registry.groups["b"].members, "who leaves makes room"


def test_a_group_that_is_forgotten_makes_room_for_members_and_partitions():
    watch = Watch(members=1, partitions=2, groups_without_members=0)
    for group in ("a", "b"):
        watch.record(*life("m", group=group, owned=topic(0, 1)))
        assert watch.registry.groups[group].members["m"].owned == topic(0, 1)
        watch.record(changed("Stable", "Absent", "m", group=group))
        assert not watch.registry.groups
    assert set(watch.hits) == {Bound.GROUPS_WITHOUT_MEMBERS}


def test_what_members_hold_is_bounded_in_all():
    watch = Watch(partitions=5)
    watch.record(*life("m-1", owned=topic(0, 1, 2)), *life("m-2", owned=topic(3, 4, 5)))
    owned = {member.id: member.owned for member in watch.registry.groups["g"].members.values()}
    assert owned == {"m-1": topic(0, 1, 2), "m-2": None}
    assert watch.hits[Bound.PARTITIONS] == 2
    watch.record(changed("Stable", "CompletingRebalance", "m-1", owned=()))
    watch.record(event(EventKind.ASSIGNED, "m-2", owned=topic(3, 4, 5)))
    assert watch.registry.groups["g"].members["m-2"].owned == topic(3, 4, 5)


def test_what_a_broker_says_of_members_is_bounded_and_they_are_known_again():
    watch = Watch(members_of_group=2)
    member = truncate(LONG, 255)
    watch.record(*life(member))
    said = BrokerView(
        asked_at=1.0,
        type="classic",
        state="",
        classic=3,
        consumer=0,
        epoch=1,
        members=(LONG, "b", "c"),
        error="",
    )
    watch.registry.set_broker_view("g", said)
    assert watch.registry.groups["g"].broker.members == (member, "b")


def test_events_are_bounded_by_the_memory_that_they_take():
    watch = Watch(events_max_bytes=200_000)
    for number in range(300):
        watch.record(event(EventKind.ASSIGNED, group=f"g-{number % 3}", partitions=topic(*range(100))))
    kept = [one for group in watch.registry.groups.values() for _, one in group.events]
    assert 150_000 < sum(map(estimated_bytes, kept)) <= 200_000
    assert watch.hits[Bound.EVENTS] == 300 - len(kept)


# -- metrics ---------------------------------------------------------------------------------------------------


def series(metrics: Metrics) -> list[str]:
    return trio.run(render_metrics, metrics).decode().splitlines()


def test_no_label_holds_what_a_client_says():
    observability, metrics = an_observability()
    for reason in (f"assignor '{LONG}' is unknown", "observed: assignor 'EVIL' is unknown", "EVIL"):
        observability.record(passed("EVIL-group", reason))
        observability.record(
            changed("Stable", "PrepareRebalance", "EVIL-member", group="other", reason="EVIL")
        )
        observability.record(changed("PrepareRebalance", "Stable", "EVIL-member", group="other"))
    told = series(metrics)
    assert not [line for line in told if "EVIL" in line or "xxx" in line]
    assert 'epochgate_passed_through_total{reason="unknown assignor"} 1.0' in told
    assert 'epochgate_passed_through_total{reason="observed: unknown assignor"} 1.0' in told
    assert 'epochgate_rebalances_total{protocol="translated",reason="other"} 2.0' in told
    assert 'epochgate_group_not_translatable{group="other",reason="other"} 1.0' in told


def test_a_group_without_members_takes_no_label_from_one_that_has_some():
    observability, metrics = an_observability(groups=1)
    observability.record(passed("stranger"))
    series(metrics)
    for one in life("m", group="mine"):
        observability.record(one)
    told = series(metrics)
    assert 'epochgate_group_members{group="mine",protocol="translated"} 1.0' in told
    assert not [line for line in told if "stranger" in line]


def test_a_group_that_is_not_kept_takes_no_label():
    metrics, labels = Metrics(), GroupLabels(10)
    dispatcher = EventDispatcher(metrics, GroupRegistry(Policy(), limits=Visibility(groups=1)), labels=labels)
    for group in ("a", "b"):
        for one in (*life("m", group=group), changed("Stable", "PrepareRebalance", "m", group=group)):
            dispatcher.dispatch(one)
    value = metrics.registry.get_sample_value
    assert value("epochgate_group_rebalances_total", {"group": "a", "protocol": "translated"}) == 1
    assert value("epochgate_group_rebalances_total", {"group": "b", "protocol": "translated"}) is None


def test_a_group_with_a_long_id_is_told_of_by_the_rule_that_holds_for_it_and_not_kept():
    metrics = Metrics()
    policy = Policy(rules=(Rule(pattern="x+", mode=Mode.REJECT),))
    registry = GroupRegistry(policy)
    recorded = EventDispatcher(metrics, registry).dispatch(passed(LONG))
    assert recorded.group.mode is Mode.REJECT
    assert len(recorded.event.group_id) == 255
    assert not registry.groups
    assert metrics.registry.get_sample_value("epochgate_bounds_hit_total", {"bound": "group_id"}) == 1


# -- all together ----------------------------------------------------------------------------------------------


def an_observability(groups: int = 200) -> tuple[Observability, Metrics]:
    config = Config(
        upstream=Upstream(bootstrap=("localhost:9092",)),
        listeners=(Listener(advertised_host="localhost", nodes={"0-9": 9100}),),
    )
    config = msgspec.structs.replace(config, metrics=msgspec.structs.replace(config.metrics, groups=groups))
    metrics = Metrics()
    return Observability(
        config, metrics, Policy(default=Mode.TRANSLATE), lambda: None, replica="here", clock=WallClock()
    ), metrics


def flood(number: int) -> Event:
    """The event of one hostile call: of a group, or of a member that was even accepted."""
    text = f"{number:06}{LONG if number % 2 else 'x' * 200}"
    if number % 4 < 2:
        return passed(text, f"assignor {text!r} is unknown", member_id=text)
    return changed(
        "Stable",
        "PrepareRebalance",
        text,
        group="one" if number % 8 < 4 else text,
        reason=text,
        owned=(TopicPartitionSet(text, None, tuple(range(50))),),
    )


def test_a_flood_of_hostile_calls_leaves_everything_small():
    now = [0.0]
    log = io.StringIO()
    configure(Log(), log, clock=lambda: now[0])
    observability, metrics = an_observability()
    count_suppressed_lines(lambda: metrics.hit(Bound.LOG_LINES))
    for one in life("m-1", group="innocent", owned=topic(0)):
        observability.record(one)
    for number in range(FLOOD):
        now[0] += 0.0001
        observability.record(flood(number))
    log_suppressed_lines()
    registry = observability.registry
    limits = Visibility()
    members = [member for group in registry.groups.values() for member in group.members.values()]
    events = [one for group in registry.groups.values() for _, one in group.events]
    assert len(registry.groups) <= limits.groups
    assert (
        len([group for group in registry.groups.values() if not group.members])
        <= limits.groups_without_members
    )
    assert len(members) <= limits.members
    assert len(registry.groups["one"].members) == limits.members_of_group
    assert sum(map(estimated_bytes, events)) <= limits.events_max_bytes
    assert sum(len(one.partitions) for member in members for one in member.owned or ()) <= limits.partitions
    assert "m-1" in registry.groups["innocent"].members
    assert len(log.getvalue()) < 10_000_000
    assert "log lines were suppressed" in log.getvalue().splitlines()[-1]
    assert sum(map(len, series(metrics))) < 5_000_000
    snapshot = trio.run(observability.snapshot)
    encode = msgspec.json.encode
    page = trio.run(
        lambda: encode_cooperatively(
            snapshot, encode, most=limits.page_groups, max_bytes=limits.page_max_bytes
        )
    )
    assert len(page) < limits.page_max_bytes + 100_000
    for bound in Bound:
        if bound not in {
            Bound.GROUPS,
            Bound.PARTITIONS_OF_EVENT,
            Bound.MEMBERS,
            Bound.PARTITIONS,
            Bound.EVENTS,
            Bound.FLEET_IDS,
            Bound.FLEET_RECORDS,
        }:
            assert metrics.registry.get_sample_value("epochgate_bounds_hit_total", {"bound": bound}), bound


def forecast_of(text: str) -> MemberForecast:
    return MemberForecast(
        id=text, client_id=text, instance=text, partitions_now=1, partitions=Span(low=1, high=1)
    )


def test_what_clients_name_themselves_is_cut_in_a_shadow_too():
    shadow = ShadowView(computed_at=1.0, why_not=None, of_members=(forecast_of("x" * 1000),))

    (member,) = bounded_shadow(shadow, 100, 5).of_members

    assert {len(member.id), len(member.client_id), len(member.instance or "")} == {100}


def test_beyond_the_bound_for_members_a_shadow_lists_none():
    shadow = ShadowView(computed_at=1.0, why_not=None, of_members=(forecast_of("x"),) * 3)

    assert bounded_shadow(shadow, 100, 2).of_members == ()
    assert len(bounded_shadow(shadow, 100, 3).of_members) == 3


def test_the_shadows_of_a_registry_list_no_more_members_together_than_it_keeps():
    registry = GroupRegistry(Policy(default=Mode.OBSERVE), limits=Visibility(members=4))
    shadow = ShadowView(computed_at=1.0, why_not=None, of_members=(forecast_of("x"),) * 3)
    for group_id in ("a", "b"):
        registry.record(event(EventKind.JOINED, group=group_id, protocol="classic"), 1)
        registry.set_shadow(group_id, shadow)
        registry.set_shadow(group_id, shadow)

    listed = {group.id: len(group.shadow.of_members) for group in registry.groups.values() if group.shadow}
    assert listed == {"a": 3, "b": 0}
