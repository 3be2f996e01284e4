"""The run that docs/tutorial/demo.md shows is what ``make demo ARGS="--record"`` printed."""

from tools import demo

OUTPUT = "demo: starting Kafka\nWhat each change cost   \n│ move │\n\nPASSED: all\n"


def test_the_last_part_of_the_output_is_put_into_the_page():
    before = "Before\n<!-- demo run -->\nold\n<!-- /demo run -->\nAfter\n"
    assert demo.page(before, "One run:", OUTPUT) == (
        "Before\n<!-- demo run -->\nOne run:\n\n    What each change cost\n    │ move │\n\n    PASSED: all\n"
        "<!-- /demo run -->\nAfter\n"
    )


def test_the_page_shows_a_run_that_passed_with_its_certificate():
    shown = demo.PAGE.read_text(encoding="utf-8").split(f"<!-- {demo.MARKER} -->")[1]
    assert demo.FIRST_LINE in shown
    assert "is proven: 0 times two owners at once" in shown
    assert "\n    PASSED: " in shown
