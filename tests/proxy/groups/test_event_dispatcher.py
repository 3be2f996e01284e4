"""Log lines and metrics that follow from events."""

import io
import logging

import pytest
import structlog

from proxy.config.schema import Log
from proxy.groups.event_dispatcher import EventDispatcher
from proxy.metrics.registry import Metrics
from proxy.runtime.log_setup import configure
from tests.proxy.fakes.log_lines import Terminal, lines_of
from tests.proxy.groups.events import event, life, topic
from translation.actions import Event, EventKind
from translation.moving.in_place import UNNOTICED
from translation.partitions import TopicPartitionSet

pytestmark = pytest.mark.usefixtures("restored_logging")


def changed(previous: str, state: str, reason: str = "assignment changed") -> Event:
    return Event(
        kind=EventKind.STATE_CHANGED,
        group_id="orders",
        member_id="m-1",
        protocol="translated",
        client_id="app",
        client_host="10.0.0.1",
        generation=3,
        epoch=5,
        previous_state=previous,
        state=state,
        reason=reason,
        partitions=(TopicPartitionSet("t", None, (0, 1)),),
    )


def test_a_state_change_is_one_line_that_says_everything():
    out = io.StringIO()
    configure(Log(), out)
    EventDispatcher(Metrics()).dispatch(changed("Stable", "PrepareRebalance"))
    (line,) = lines_of(out)
    assert line.pop("timestamp")
    assert line == {
        "event": "state changed",
        "level": "info",
        "group": "orders",
        "member": "m-1",
        "protocol": "translated",
        "client_id": "app",
        "client_host": "10.0.0.1",
        "state": "Stable -> PrepareRebalance",
        "generation": 3,
        "epoch": 5,
        "partitions": {"t": [0, 1]},
        "reason": "assignment changed",
    }


def test_state_changes_and_rebalances_are_counted():
    metrics = Metrics()
    dispatcher = EventDispatcher(metrics)
    for one in (
        changed("Absent", "CompletingRebalance", "JoinGroup answered"),
        changed("CompletingRebalance", "Stable", "SyncGroup answered"),
        changed("Stable", "PrepareRebalance", "partitions were added"),
    ):
        dispatcher.dispatch(one)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"epochgate_{name}", labels)

    assert value("rebalances_total", reason="partitions were added", protocol="translated") == 1
    assert value("group_rebalances_total", group="other", protocol="translated") == 1
    assert value("member_state_changes_total", previous_state="Stable", state="PrepareRebalance") == 1
    assert value("events_total", kind="state_changed") == 3


def test_a_conversion_in_place_is_no_adoption_no_rebalance_and_no_pause():
    metrics = Metrics()
    dispatcher = EventDispatcher(metrics)
    for one in life(owned=topic(0), protocol="classic"):
        dispatcher.dispatch(one)
    dispatcher.dispatch(changed("Absent", "Stable", UNNOTICED))
    for reason in (UNNOTICED, "found at the broker"):
        dispatcher.dispatch(event(EventKind.ADOPTED, owned=topic(0), reason=reason))

    def total(name: str) -> float:
        families = metrics.registry.collect()
        samples = [sample for family in families for sample in family.samples]
        return sum(sample.value for sample in samples if sample.name == f"epochgate_{name}")

    assert [total(name) for name in ("conversions_total", "adoptions_total")] == [1, 1]
    assert [total(name) for name in ("rebalances_total", "member_paused_seconds_count")] == [0, 0]


def test_reasons_as_labels_are_bounded():
    metrics = Metrics()
    dispatcher = EventDispatcher(metrics)
    for n in range(100):
        dispatcher.dispatch(changed("PrepareRebalance", "Stable", "SyncGroup answered"))
        dispatcher.dispatch(changed("Stable", "PrepareRebalance", f"reason {n}"))
    (family,) = [f for f in metrics.registry.collect() if f.name == "epochgate_rebalances"]
    assert [sample.labels["reason"] for sample in family.samples] == ["other"]


def test_a_group_that_passes_through_is_news_once():
    out = io.StringIO()
    configure(Log(), out)
    dispatcher = EventDispatcher(Metrics())
    for _ in range(3):
        dispatcher.dispatch(Event(kind=EventKind.PASSED_THROUGH, group_id="g", reason="connect"))
    dispatcher.dispatch(Event(kind=EventKind.PASSED_THROUGH, group_id="g", reason="another"))
    assert [line["reason"] for line in lines_of(out)] == ["connect", "another"]


def test_what_is_left_to_nobody_is_a_warning():
    out = io.StringIO()
    configure(Log(), out)
    dispatcher = EventDispatcher(Metrics())
    for kind in (EventKind.MENDING, EventKind.LEFT_UNOWNED):
        dispatcher.dispatch(Event(kind=kind, group_id="g", reason="why"))
    assert [line["level"] for line in lines_of(out)] == ["info", "warning"]


HOSTILE = "\x1b]0;evil\x07\x1b[2J\r\ninjected line\x7f\x9b31m\u202egnp\u2028"
"""Sets a terminal's title, clears it, begins another line, turns the direction of text."""


@pytest.mark.parametrize("where", [Terminal, io.StringIO])
@pytest.mark.parametrize("log", [Log(format="console"), Log(format="json")])
def test_what_clients_make_up_can_not_command_a_terminal_or_make_a_line(where, log):
    out = where()
    configure(log, out)
    EventDispatcher(Metrics()).dispatch(
        Event(kind=EventKind.PASSED_THROUGH, group_id=HOSTILE, reason=HOSTILE)
    )
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        structlog.get_logger("x").error(HOSTILE, exc_info=error, topics={HOSTILE: [1]})
    logging.getLogger("some.library").warning("loud %s", HOSTILE)
    said = out.getvalue()
    assert "injected line" in said
    assert not [line for line in said.split("\n") if line.startswith("injected")]
    for character in ("\x1b]", "\x1b[2J", "\x07", "\r", "\x7f", "\x9b", "\u202e", "\u2028"):
        assert character not in said
    assert "u202e" in said, "but visible"


def test_a_line_names_no_thousands_of_partitions():
    out = io.StringIO()
    configure(Log(), out)
    partitions = (TopicPartitionSet("t", None, tuple(range(5000))),)
    EventDispatcher(Metrics()).dispatch(
        Event(kind=EventKind.JOINED, group_id="g", member_id="m", partitions=partitions)
    )
    assert [line["partitions"] for line in lines_of(out)] == ["5000 of 1 topics"]
