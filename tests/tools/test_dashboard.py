"""The picture of the dashboard is drawn from its JSON and from what a Prometheus answers."""

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from tools.dashboard.__main__ import DASHBOARD, ROWS, rows
from tools.dashboard.answers import Line, Prometheus
from tools.dashboard.drawing import CAPTION, formatted, page

PANELS = json.loads(DASHBOARD.read_text())["panels"]


def panel(title: str) -> dict[str, object]:
    (found,) = [one for one in PANELS if one["title"] == title]
    return found


def line(name: str, *values: float) -> Line:
    return Line(name, tuple((float(at), value) for at, value in enumerate(values)))


def drawn(title: str, *lines: Line) -> str:
    """The part of the page after the panel's title."""
    return page("Epochgate", [(panel(title), lines)], (0, 2)).partition("</h3>")[2]


def test_every_panel_is_drawn_and_the_page_says_that_it_is_not_grafana() -> None:
    shown = page("Epochgate", [(one, [line("a", 1, 2), line("b", 3)]) for one in PANELS], (0, 2))
    assert CAPTION in shown
    assert shown.count("<section") + shown.count("<h2") == len(PANELS)
    assert "no data" not in shown


def test_the_pictures_have_the_rows_that_an_operator_asks_for_first() -> None:
    titles = [row[0]["title"] for row in rows({"panels": PANELS})]
    assert [titles[some] for some in ROWS.values()] == [
        ["How far is it?", "What moves now, and what does it wait for?"],
        ["Who is harmed?", "Is it proven? (with `verify.live`)"],
    ]


@pytest.mark.parametrize(
    ("title", "value", "shown"),
    [
        ("Migrated, whole cluster", 0.5, "50 %"),
        ("Migrated, whole cluster", -1.0, "needs a complete count"),
        ("Done in, at this pace", 5400.0, "1.5 h"),
        ("Done in, at this pace", 0.0, "done"),
        ("Held or paused", 0.0, 'class="value good">0'),
        ("Held or paused", 2.0, 'class="value bad">2'),
    ],
)
def test_a_value_has_its_unit_its_text_or_its_colour(title: str, value: float, shown: str) -> None:
    assert shown in drawn(title, line("x", value))


def test_a_name_that_the_dashboard_replaces_is_replaced() -> None:
    found = drawn("Rebalances, after the move against before", line("too_few", 4), line("shorter", 2))
    assert "not enough to say" in found
    assert "too_few" not in found


def test_series_that_are_stacked_lie_on_one_another() -> None:
    found = drawn("Moves by phase", line("held", 1, 1), line("moving", 2, 2))
    assert ">3<" in found or ">5<" in found, "the axis ends above their sum"
    assert found.count("<polygon") == 2


def test_lines_are_told_apart_and_have_a_name_and_no_text_is_stretched() -> None:
    found = drawn(
        "Refused commits, per minute", *(line(str(number), 1, 2) for number in range(9)), line("", 1, 2)
    )
    assert found.count("stroke-dasharray") == 2, "after the eighth colour the first begins again"
    assert "<text" not in found, "the SVG is stretched to its panel"
    assert ">Refused commits, per minute<" in drawn("Refused commits, per minute", line("", 1, 2))


def test_names_are_text() -> None:
    assert "<b>" not in drawn("Waves", line("<b>", 1))


def test_no_answer_is_said_to_be_none() -> None:
    assert "no data" in drawn("Waves")


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.25, "percentunit", "25 %"),
        (0.02, "s", "20 ms"),
        (172_800, "s", "2 days"),
        (1_500, "short", "1.5 k"),
        (3, "short", "3"),
    ],
)
def test_units(value: float, unit: str, shown: str) -> None:
    assert formatted(value, unit) == shown


# -- what a Prometheus is asked --------------------------------------------------------------------------------


@contextlib.contextmanager
def answering(result: list[dict[str, object]]) -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """Something that answers as Prometheus does; the questions are kept."""
    asked: list[tuple[str, dict[str, str]]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            asked.append((url.path, {name: one for name, (one,) in parse_qs(url.query).items()}))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"data": {"result": result}}).encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_panel_over_time_asks_for_a_range_with_its_variables_in_place() -> None:
    answer: list[dict[str, object]] = [
        {"metric": {"result": "done"}, "values": [[10, "1"], [11, "NaN"], [12, "3"]]}
    ]
    with answering(answer) as (url, asked):
        found = Prometheus(url, 0, 480).lines(
            panel("Commands and calls of the hook, per minute"), {"instance": "pod-.*"}
        )
    assert found[0] == Line("command done", ((10.0, 1.0), (12.0, 3.0)))
    path, question = asked[0]
    assert path == "/api/v1/query_range"
    assert '{instance=~"pod-.*"}[30s]' in question["query"]
    assert (question["start"], question["end"], question["step"]) == ("0.000", "480.000", "2.000")


def test_a_label_that_a_series_lacks_is_empty_in_its_name() -> None:
    with answering([{"metric": {}, "value": [480, "0"]}]) as (url, _):
        (found,) = Prometheus(url, 0, 480).lines(panel("Waves"), {})
    assert found.name == ":"


def test_a_panel_of_one_moment_asks_for_the_end() -> None:
    answer: list[dict[str, object]] = [{"metric": {"wave": "1", "state": "over"}, "value": [480, "2"]}]
    with answering(answer) as (url, asked):
        found = Prometheus(url, 0, 480).lines(panel("Waves"), {})
    assert found == [Line("1: over", ((480.0, 2.0),))]
    assert asked[0][0] == "/api/v1/query"
    assert asked[0][1]["time"] == "480.000"
