"""The log of a process: its formats, its levels, its bounds."""

import io
import json
import logging

import pytest
import structlog

from proxy.config.schema import Log
from proxy.runtime.log_setup import configure, count_suppressed_lines, log_suppressed_lines
from tests.proxy.fakes.log_lines import Terminal, lines_of

pytestmark = pytest.mark.usefixtures("restored_logging")


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


def test_lines_of_a_library_are_throttled_too():
    out, left_out = io.StringIO(), []
    configure(Log(lines_per_s=2), out, clock=lambda: 0.0)
    count_suppressed_lines(lambda: left_out.append(1))
    for number in range(1000):
        logging.getLogger("hypercorn.error").error("request %d failed", number)
    logging.getLogger("some.library").error("request %d failed", 1)
    assert len(lines_of(out)) == 20 + 1
    assert len(left_out) == 980


def test_a_text_in_a_line_is_not_long():
    out = io.StringIO()
    configure(Log(), out)
    structlog.get_logger("x").warning("connection closed", reason="x" * 30_000)
    logging.getLogger("some.library").warning("y" * 30_000)
    assert [len(line.get("reason", line["event"])) for line in lines_of(out)] == [1001, 1001]
