"""Records of groups by their events, and the snapshots that are made and merged from them."""

import random
from collections import Counter

import msgspec
import pytest

from protocol_codecs.classic_clients import OPTIONS, RACKS_IGNORED, Refusal
from proxy.config.schema import Visibility
from proxy.groups.group_metrics import OTHER, PREFIX, GroupLabels, counts_of_record, counts_of_view, families
from proxy.groups.group_records import GroupLookups
from proxy.groups.group_registry import GroupRegistry
from proxy.groups.group_views import view_of
from proxy.groups.snapshot import BrokerView, Snapshot, merge
from proxy.journal.journal import estimated_bytes
from proxy.metrics.bounds import Bound
from proxy.shadow.view import ShadowView, Span, not_computable
from tests.proxy.groups.events import MICRO, changed, event, life, topic
from translation.actions import ConnectWorker, Event, EventKind
from translation.mending.unowned import Unowned
from translation.partitions import Role, TopicPartitions, TopicPartitionSet
from translation.policy.client_offer import ClientOffer
from translation.policy.policy import Mode, Policy, Rule


@pytest.fixture
def registry() -> GroupRegistry:
    return GroupRegistry(Policy(default=Mode.TRANSLATE))


def record(registry: GroupRegistry, events: list[Event], at_s: float = 1.0):
    return [registry.record(one, round(at_s * MICRO)) for one in events]


def view(registry: GroupRegistry, at_s: float = 2.0, group: str = "g"):
    return view_of(registry.groups[group], round(at_s * MICRO))


def broker(**fields) -> BrokerView:
    said = {"asked_at": 1.0, "type": "consumer", "state": "Stable", "classic": 0, "consumer": 0, "epoch": 3}
    return BrokerView(**said | {"members": (), "error": ""} | fields)


def snapshot(*groups, replica: str = "a", time: float = 2.0) -> Snapshot:
    return Snapshot(
        time=time,
        replicas=(replica,),
        version="1",
        ready=True,
        not_ready_reason=None,
        policy_version=1,
        policy_is_current=True,
        groups=groups,
    )


def test_a_member_is_shown_as_its_last_event_told_it(registry):
    record(registry, life(owned=topic(0, 1), generation=3, epoch=5, software="sarama/1"))
    (member,) = view(registry).members
    assert (member.client_id, member.state, member.generation, member.epoch) == ("app-m-1", "Stable", 3, 5)
    assert member.partitions == topic(0, 1)
    assert member.software == "sarama/1"
    assert view(registry).state == "Stable"
    assert view(registry).protocol == "translated"


def test_a_group_without_members_is_empty(registry):
    record(registry, [*life(), changed("Stable", "Absent", owned=()), event(EventKind.LEFT, state="Absent")])
    assert (view(registry).state, view(registry).members) == ("Empty", ())


def test_progress_counts_what_the_broker_says(registry):
    record(registry, life("m-1") + life("m-2", protocol="classic"))
    assert (view(registry).progress.done, view(registry).progress.total, view(registry).progress.by) == (
        1,
        2,
        "proxy",
    )
    registry.set_broker_view("g", broker(consumer=2, classic=1, members=("m-1", "m-2", "m-3")))
    progress = view(registry).progress
    assert (progress.done, progress.total, progress.by, progress.elsewhere) == (2, 3, "broker", 1)
    assert progress.ratio == pytest.approx(2 / 3)


def test_a_pause_is_the_time_without_anything_between_two_assignments(registry):
    record(registry, life(owned=topic(0)))
    record(registry, [changed("Stable", "PrepareRebalance", owned=topic(0))], 10)
    record(registry, [changed("PrepareRebalance", "CompletingRebalance", owned=())], 11)
    (recorded,) = record(registry, [changed("CompletingRebalance", "Stable", owned=topic(0))], 12.5)
    assert recorded.paused_s == pytest.approx(2.5)


def test_a_member_that_keeps_what_it_holds_has_no_pause(registry):
    record(registry, life(owned=topic(0)))
    record(registry, [changed("Stable", "PrepareRebalance", owned=topic(0))], 10)
    record(registry, [changed("PrepareRebalance", "CompletingRebalance", owned=topic(0))], 11)
    (recorded,) = record(registry, [changed("CompletingRebalance", "Stable", owned=topic(0, 1))], 12)
    assert recorded.paused_s is None


def test_the_last_rebalance_lasts_until_everybody_is_stable(registry):
    record(registry, life("m-1") + life("m-2"))
    reason = "partitions are to be revoked"
    (recorded,) = record(registry, [changed("Stable", "PrepareRebalance", "m-1", reason=reason)], 10)
    assert recorded.rebalances
    record(registry, [changed("Stable", "PrepareRebalance", "m-2", reason="another")], 11)
    record(registry, [changed("PrepareRebalance", "Stable", "m-1")], 12)
    assert view(registry).last_rebalance.ended_at is None
    assert view(registry).state == "Rebalancing"
    record(registry, [changed("PrepareRebalance", "Stable", "m-2")], 13)
    last = view(registry).last_rebalance
    assert (last.started_at, last.ended_at, last.reason, last.members) == (10, 13, reason, ("m-1", "m-2"))


def test_a_member_beyond_its_rebalance_timeout_is_stuck(registry):
    record(registry, life(rebalance_timeout_ms=5000))
    record(registry, [changed("Stable", "PrepareRebalance", rebalance_timeout_ms=5000)], 10)
    assert view(registry, 15).stuck is None
    assert "PrepareRebalance 3 s beyond" in view(registry, 18).stuck


def test_a_conversion_that_does_not_go_on_is_stuck():
    registry = GroupRegistry(Policy())
    record(registry, life("m-1", protocol="classic"))
    assert view(registry, 1000).stuck is None, "it is only observed"
    registry.set_policy(Policy(rules=(Rule(group="g", mode=Mode.TRANSLATE),)), 1000 * MICRO)
    assert view(registry, 1100).stuck is None
    assert "1 classic members wait to be moved" in view(registry, 1121).stuck
    assert view(registry, 1121).rule == "rule 1: group g"
    record(registry, [event(EventKind.PASSED_THROUGH, "m-1", protocol="", reason="a connect group")], 1121)
    assert (view(registry, 1200).stuck, view(registry, 1200).why_not) == (None, "a connect group")


def test_the_assignor_that_the_policy_gives_a_group_follows_the_policy():
    registry = GroupRegistry(Policy(rules=(Rule(group="g", mode=Mode.TRANSLATE, assignor="range"),)))
    record(registry, life("m-1"))
    assert view(registry, 1).assignor == "range"
    registry.set_policy(Policy(default=Mode.TRANSLATE), 1)
    assert (view(registry, 1).assignor, view(registry, 1).rule) == (None, "default")


def test_what_is_kept_is_bounded():
    on_drop: list[str] = []
    limits = Visibility(groups=3, events_max_bytes=10_000)
    hits: Counter[Bound] = Counter()
    registry = GroupRegistry(
        Policy(), on_drop=on_drop.append, limits=limits, hit=lambda bound: hits.update([bound])
    )
    for number in range(10):
        for group in "abcd":
            record(registry, [event(EventKind.EPOCH_MOVED, group=group, epoch=number)])
    assert list(registry.groups) == ["a", "b", "c"], "those that have members stay"
    assert set(on_drop) == {"d"}
    kept = [one for group in registry.groups.values() for _, one in group.events]
    assert len(kept) >= 5
    assert sum(map(estimated_bytes, kept)) <= 10_000
    assert hits[Bound.GROUPS] == 10
    assert hits[Bound.EVENTS] >= 30 - len(kept)


def test_empty_groups_are_forgotten_after_an_hour(registry):
    record(registry, [event(EventKind.PASSED_THROUGH, protocol="")], 1)
    registry.evict_idle(3000 * MICRO)
    assert "g" in registry.groups
    registry.evict_idle(3700 * MICRO)
    assert "g" not in registry.groups


def test_snapshots_of_workers_are_merged():
    one, two = GroupRegistry(Policy()), GroupRegistry(Policy())
    record(one, life("m-1", owned=topic(0)), 1)
    record(two, life("m-2", owned=topic(1)), 2)
    record(one, life("m-3"), 3)
    record(two, life("m-3", owned=topic(2)), 4)  # it went from one worker to the other
    two.set_broker_view("g", broker(consumer=3, members=("m-1", "m-2", "m-3")))
    parts = [snapshot(view(one), replica="h/0"), snapshot(view(two), replica="h/1")]
    travelled = [msgspec.json.decode(msgspec.json.encode(part), type=Snapshot) for part in parts]
    merged = merge(travelled)
    assert merged.replicas == ("h/0", "h/1")
    (group,) = merged.groups
    assert [member.id for member in group.members] == ["m-1", "m-2", "m-3"]
    assert group.members[2].partitions == topic(2)
    assert (group.progress.done, group.progress.elsewhere) == (3, 0)
    assert [one.time_us for one in group.events] == sorted(one.time_us for one in group.events)


def test_one_worker_knows_what_nobody_has_and_the_merged_snapshot_too():
    nobody_has = Unowned(partitions=1, since_s=5.0, tries=1, why_not="", text="1 partition has no owner")
    one = GroupRegistry(Policy(), lookups=GroupLookups(unowned_of={"g": nobody_has}.get))
    two = GroupRegistry(Policy())
    record(one, life("m-1"), 1)
    record(two, life("m-2"), 2)
    merged = merge([snapshot(view(one), replica="h/0"), snapshot(view(two), replica="h/1")])
    assert merged.groups[0].unowned == nobody_has


def gauges(counts, most: int) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (sample.name.removeprefix(PREFIX), tuple(sample.labels.values())): sample.value
        for family in families(counts, GroupLabels(most))
        for sample in family.samples
    }


def test_group_labels_are_bounded_and_nothing_is_lost(registry):
    for number in range(50):
        record(registry, life("m", group=f"g-{number}", protocol="classic" if number % 2 else "translated"))
    values = gauges([counts_of_record(group, MICRO) for group in registry.groups.values()], 5)
    by_group = {key[1][0]: value for key, value in values.items() if key[0] == "group_mode"}
    assert len(by_group) == 6
    assert by_group[OTHER] == 45
    assert values["unlabelled_groups", ()] == 45
    assert sum(value for key, value in values.items() if key[0] == "group_members") == 50
    assert values["members", ("translate", "classic", "Stable")] == 25


def test_counts_of_a_view_are_those_of_the_record(registry):
    record(registry, life("m-1", generation=3, epoch=7) + life("m-2", protocol="consumer"))
    record(registry, [changed("Stable", "PrepareRebalance", rebalance_timeout_ms=1000)], 5)
    registry.set_broker_view("g", broker(consumer=2, classic=1, members=("m-1", "x")))
    group, now_us = registry.groups["g"], 60 * MICRO
    from_view, from_record = counts_of_view(view_of(group, now_us)), counts_of_record(group, now_us)
    assert gauges([from_view], 9) == gauges([from_record], 9)


def test_a_label_is_free_again_when_its_group_is_gone():
    labels = GroupLabels(1, {"a": 1, "b": 2}.get)
    assert [labels.of("a"), labels.of("b")] == ["a", OTHER]
    labels.keep({"b"})
    assert labels.of("b") == "b"


@pytest.mark.parametrize("seed", range(5))
def test_processes_choose_the_same_groups_in_whatever_order_they_see_them(seed):
    groups = [f"g-{number}" for number in range(300)]
    named = {"g-7": 0, "g-250": 1, "g-3": 2}
    lost = []
    chosen = []
    for process in range(2):
        labels = GroupLabels(20, named.get, lost.append)
        seen = random.Random(seed * 2 + process).sample(groups, 300)  # noqa: S311 - no secret
        for group in seen:
            labels.of(group)
        chosen.append({group for group in groups if labels.of(group) == group})
    assert chosen[0] == chosen[1]
    assert len(chosen[0]) == 20
    assert named.keys() <= chosen[0]
    assert lost, "a group that came before took no label"


def test_a_policy_that_names_a_group_gives_it_the_label():
    numbers = {"a": 1}
    labels = GroupLabels(1, numbers.get)
    assert [labels.of("a"), labels.of("b")] == ["a", OTHER]
    numbers.clear()
    numbers["b"] = 0
    labels.rank_again()
    assert [labels.of("b"), labels.of("a")] == ["b", OTHER]


@pytest.mark.parametrize("protocol", ["share", "streams", "connect"])
def test_members_that_have_nowhere_to_go_are_counted_and_are_no_part_of_the_progress(registry, protocol):
    record(registry, life("m-1", protocol=protocol, owned=topic(0)) + life("m-2", protocol=protocol))
    group = view(registry)
    assert (group.protocol, group.state) == (protocol, "Stable")
    progress = group.progress
    assert (progress.done, progress.total, progress.ratio) == (0, 0, None)
    assert getattr(progress, protocol) == 2
    found = {family.name: family for family in families([counts_of_view(group)], GroupLabels(5))}
    (members,) = found[f"{PREFIX}members"].samples
    assert (members.labels["protocol"], members.value) == (protocol, 2)
    assert not found[f"{PREFIX}group_broker_members"].samples


def test_what_the_broker_says_of_connect_workers_is_no_series_since_they_are_no_part_of_the_progress(
    registry,
):
    record(registry, life(protocol="connect"))
    registry.set_broker_view("g", broker(type="classic", classic=2))
    for counts in (counts_of_view(view(registry)), counts_of_record(registry.groups["g"], 2 * MICRO)):
        found = {family.name: family for family in families([counts], GroupLabels(5))}
        assert not found[f"{PREFIX}group_broker_members"].samples


def test_a_reason_against_a_group_ends_with_its_last_member():
    registry = GroupRegistry(Policy())
    record(registry, [passed("assignor 'ours' is unknown", "ours")])
    for member in ("m-1", "m-2"):
        record(registry, life(member, protocol="classic"))
    record(registry, [changed("Stable", "Absent", "m-1", protocol="classic")])
    assert view(registry).why_not == "assignor 'ours' is unknown"
    record(registry, [changed("Stable", "Absent", "m-2", protocol="classic")])
    assert view(registry).why_not is None


def test_a_reason_against_clients_that_wait_in_join_group_stays_when_the_last_member_ends():
    registry = GroupRegistry(Policy())
    record(registry, life("m-1", protocol="classic"))
    record(registry, [passed("assignor 'ours' is unknown", "ours")])
    record(registry, [changed("Stable", "Absent", "m-1", protocol="classic")])
    assert view(registry).why_not == "assignor 'ours' is unknown"
    record(registry, life("m-2", protocol="classic"))
    assert view(registry).why_not == "assignor 'ours' is unknown"
    record(registry, [changed("Stable", "Absent", "m-2", protocol="classic")])
    assert view(registry).why_not is None


def test_a_share_group_in_translate_is_not_stuck_because_nobody_moves(registry):
    record(registry, life(protocol="share"), at_s=1)
    assert view(registry, at_s=10_000).stuck is None


def connectors(*tasks: int) -> TopicPartitions:
    return (TopicPartitionSet("src", None, tasks, Role.CONNECT),)


def test_a_group_of_connect_workers_says_who_leads_it_and_what_waits(registry):
    waits = ConnectWorker("http://w1/", 5, "m-1", "http://w1/", 300_000)
    record(registry, life("m-1", protocol="connect", owned=connectors(-1, 0), worker=waits), at_s=1)
    follows = msgspec.structs.replace(waits, url="http://w2/")
    record(registry, life("m-2", protocol="connect", owned=connectors(1), worker=follows), at_s=2)
    group = view(registry, at_s=10)
    first, second = (member.worker for member in group.members)
    assert (first.url, first.is_leader, first.config_offset, first.rejoins_at) == (
        "http://w1/",
        True,
        5,
        301.0,
    )
    assert (second.url, second.is_leader, second.leader_url) == ("http://w2/", False, "http://w1/")
    connect = group.connect
    assert (connect.workers, connect.connectors, connect.tasks) == (2, 1, 2)
    assert (connect.leader_url, connect.rejoins_at) == ("http://w1/", 302.0)
    assert view(registry, at_s=400).connect.rejoins_at is None, "by then they have joined again"
    merged = merge([snapshot(group), snapshot(group, replica="b")])
    assert merged.groups[0].connect == connect
    found = gauges([counts_of_record(registry.groups["g"], 10 * MICRO)], 5)
    assert found["connect_connectors", ("g",)] == 1
    assert found["connect_tasks", ("g",)] == 2
    assert found["connect_rejoin_timestamp_seconds", ("g",)] == 302


def test_the_progress_of_connect_workers_is_not_what_the_broker_says_of_their_group(registry):
    record(registry, life("m-1", protocol="connect"))
    registry.set_broker_view("g", broker(type="classic", classic=2, members=("m-1", "far")))
    progress = view(registry).progress
    assert (progress.total, progress.connect, progress.elsewhere) == (0, 1, 1)


def passed(reason: str, *assignors: str, rack_aware: bool = False):
    offer = ClientOffer(protocol_type="consumer", assignors=assignors, user_data=(), rack_aware=rack_aware)
    return event(EventKind.PASSED_THROUGH, protocol="", reason=reason, offer=offer)


def test_a_group_that_is_not_translated_is_shown_with_what_can_be_done_and_follows_the_policy():
    registry = GroupRegistry(Policy(default=Mode.TRANSLATE))
    record(registry, [passed("assignor 'ours' is unknown", "ours")])
    shown = view(registry, 1)
    assert (shown.client.assignors, shown.options) == (("ours",), OPTIONS[Refusal.UNKNOWN_ASSIGNOR])
    registry.set_policy(Policy(default=Mode.TRANSLATE, assignors_allowed=("ours",)), 1)
    assert (view(registry, 1).why_not, view(registry, 1).options) == (None, None)


def test_other_reasons_stay_whatever_the_policy_allows_and_have_no_options():
    registry = GroupRegistry(Policy())
    record(registry, [passed("the broker has no ConsumerGroupHeartbeat v1", "range")])
    registry.set_policy(Policy(default=Mode.TRANSLATE, assignors_allowed=("ours",)), 1)
    assert (view(registry, 1).why_not, view(registry, 1).options) == (
        "the broker has no ConsumerGroupHeartbeat v1",
        None,
    )


def test_a_group_whose_clients_go_by_racks_has_a_note_until_a_client_joins_that_does_not():
    registry = GroupRegistry(Policy())
    record(registry, [passed("observed: translatable", "range", rack_aware=True)])
    assert view(registry, 1).notes == (RACKS_IGNORED,)
    record(registry, life())
    assert view(registry, 1).notes == (RACKS_IGNORED,), "these events say nothing of it"
    record(registry, [passed("observed: translatable", "range")])
    assert view(registry, 1).notes == ()


def test_what_was_told_of_a_move_ends_when_the_group_has_another_type_or_is_translated(registry):
    registry.set_policy(Policy(default=Mode.OBSERVE), 1)
    record(registry, life(protocol="classic"))
    told = ShadowView(computed_at=1.0, why_not=None)

    registry.set_shadow("g", told)
    registry.set_broker_view("g", broker(type="classic"))
    assert view(registry).shadow == told
    registry.set_broker_view("g", broker(type="consumer"))
    assert view(registry).shadow == not_computable("it is a group of the new protocol already", 1.0)

    registry.set_policy(Policy(default=Mode.TRANSLATE), 2)
    registry.set_shadow("g", told)
    assert view(registry).shadow is None


def test_of_several_workers_the_newest_shadow_that_tells_something_is_shown(registry):
    registry.set_policy(Policy(default=Mode.OBSERVE), 1)
    record(registry, life(protocol="classic"))
    shadows = [
        ShadowView(computed_at=1.0, why_not=None),
        ShadowView(computed_at=2.0, why_not=None),
        not_computable("no broker could be asked for its topics", 3.0),
    ]
    parts = [snapshot(msgspec.structs.replace(view(registry), shadow=one)) for one in shadows]

    assert merge(parts).groups[0].shadow == shadows[1]
    assert merge(parts[2:] * 2).groups[0].shadow == shadows[2]


def test_shadows_are_summed_up_in_metrics(registry):
    registry.set_policy(Policy(default=Mode.OBSERVE), 1)
    for group_id, shadow in (
        (
            "a",
            ShadowView(computed_at=1.0, why_not=None, empty=Span(low=0, high=2), moved=Span(low=3, high=7)),
        ),
        ("b", not_computable("it is rebalancing", 1.0)),
    ):
        record(registry, life(group=group_id, protocol="classic"))
        registry.set_shadow(group_id, shadow)

    counted = [counts_of_view(view(registry, group=group_id)) for group_id in ("a", "b")]
    found = {family.name: family for family in families(counted, GroupLabels(5))}

    def values(name):
        return {tuple(one.labels.values()): one.value for one in found[PREFIX + name].samples}

    assert values("group_shadow") == {("a", "computed"): 1, ("b", "unknown"): 1}
    assert values("group_shadow_empty_members") == {("a",): 2}
    assert values("group_shadow_moved_partitions") == {("a",): 7}
