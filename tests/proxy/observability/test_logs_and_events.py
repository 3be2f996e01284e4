"""What people read: log lines and the metrics that follow from events."""

import io
import json
import logging

import pytest
import structlog

from proxy.config.schema import Log
from proxy.metrics.registry import Metrics
from proxy.observability.event_dispatcher import EventDispatcher
from proxy.runtime.log_setup import configure, count_suppressed_lines, log_suppressed_lines
from translation.actions import Event, EventKind
from translation.partitions import TopicPartitionSet


@pytest.fixture(autouse=True)
def _as_it_was():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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


def lines_of(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


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


def test_a_terminal_gets_lines_for_people():
    out = Terminal()
    configure(Log(), out)
    structlog.get_logger("x").info("state changed", group="orders")
    assert "state changed" in out.getvalue()
    with pytest.raises(json.JSONDecodeError):
        json.loads(out.getvalue())


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_the_format_can_be_set(stream):
    out = stream()
    configure(Log(format="json"), out)
    structlog.get_logger("x").info("hello")
    assert lines_of(out)[0]["event"] == "hello"


def test_an_exception_is_part_of_its_line():
    out = io.StringIO()
    configure(Log(), out)
    try:
        raise RuntimeError("a bug")
    except RuntimeError as error:
        structlog.get_logger("x").error("failed", exc_info=error)
    (line,) = lines_of(out)
    assert "RuntimeError: a bug" in line["exception"]


def test_lines_below_the_level_are_left_out_and_libraries_come_out_alike():
    out = io.StringIO()
    configure(Log(level="warning"), out)
    structlog.get_logger("x").info("quiet")
    logging.getLogger("hypercorn.error").info("quiet")
    logging.getLogger("some.library").warning("loud %s", "words")
    (line,) = lines_of(out)
    assert (line["event"], line["level"]) == ("loud words", "warning")


def test_state_changes_and_rebalances_are_counted():
    metrics = Metrics()
    dispatcher = EventDispatcher(metrics)
    for event in (
        changed("Absent", "CompletingRebalance", "JoinGroup answered"),
        changed("CompletingRebalance", "Stable", "SyncGroup answered"),
        changed("Stable", "PrepareRebalance", "partitions were added"),
    ):
        dispatcher.dispatch(event)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"epochgate_{name}", labels)

    assert value("rebalances_total", reason="partitions were added", protocol="translated") == 1
    assert value("group_rebalances_total", group="other", protocol="translated") == 1
    assert value("member_state_changes_total", previous_state="Stable", state="PrepareRebalance") == 1
    assert value("events_total", kind="state_changed") == 3


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


def test_a_traceback_on_a_terminal_shows_no_values_of_variables():
    out = Terminal()
    configure(Log(), out)
    try:
        _fail_with("hunter" + "2")
    except ValueError as error:
        structlog.get_logger("x").error("failed", exc_info=error)
    assert "_fail_with" in out.getvalue()
    assert "hunter2" not in out.getvalue()


def _fail_with(_password: str) -> None:
    raise ValueError


def test_lines_of_one_kind_are_throttled_and_the_suppressed_ones_are_counted_and_reported():
    now, out, left_out = [0.0], io.StringIO(), []
    configure(Log(lines_per_s=2), out, clock=lambda: now[0])
    count_suppressed_lines(lambda: left_out.append(1))
    log = structlog.get_logger("x")
    for _ in range(1000):
        log.warning("connection closed")
    log.info("another kind")
    assert [line["event"] for line in lines_of(out)] == ["connection closed"] * 20 + ["another kind"]
    assert len(left_out) == 980
    now[0] += 1.0
    for _ in range(3):
        log.warning("connection closed")
    assert [line.get("suppressed") for line in lines_of(out)[21:]] == [980, None]
    log_suppressed_lines()
    assert lines_of(out)[-1]["kinds"] == {"connection closed": 1}
    log_suppressed_lines()
    assert len(lines_of(out)) == 24


def test_a_line_names_no_thousands_of_partitions():
    out = io.StringIO()
    configure(Log(), out)
    partitions = (TopicPartitionSet("t", None, tuple(range(5000))),)
    EventDispatcher(Metrics()).dispatch(
        Event(kind=EventKind.JOINED, group_id="g", member_id="m", partitions=partitions)
    )
    assert [line["partitions"] for line in lines_of(out)] == ["5000 of 1 topics"]


def test_a_text_in_a_line_is_not_long():
    out = io.StringIO()
    configure(Log(), out)
    structlog.get_logger("x").warning("connection closed", reason="x" * 30_000)
    logging.getLogger("some.library").warning("y" * 30_000)
    assert [len(line.get("reason", line["event"])) for line in lines_of(out)] == [1001, 1001]
