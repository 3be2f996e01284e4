"""When the share group's story has passed, and what is wrong with it otherwise."""

import msgspec
import pytest

from proxy.demo.share.plan import LOCK_S
from proxy.demo.share.result import ShareResult, problems

GOOD = ShareResult(
    produced=100,
    accepted=99,
    accepted_twice=0,
    missing=(),
    came_again=5,
    held=3,
    taken_over=3,
    taken_over_after_ms=120.0,
    poison=50,
    poison_deliveries=3,
    delivery_limit=3,
    left=0,
)


def test_a_good_one():
    assert problems(GOOD) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"produced": 0}, "no record was produced, so the demo shows nothing"),
        ({"missing": (3, 4, 9)}, "3 records were never accepted: 3-4, 9"),
        ({"accepted_twice": 2}, "2 records were accepted twice"),
        ({"came_again": 0}, "no released record was accepted later"),
        ({"held": 0, "taken_over": 0}, "of the 0 records of the killed consumer, others accepted 0"),
        ({"taken_over": 2}, "of the 3 records of the killed consumer, others accepted 2"),
        (
            {"taken_over_after_ms": LOCK_S * 1000.0},
            "the records of the killed consumer waited until their locks had ended",
        ),
        ({"poison_deliveries": 4}, "record 50 was delivered 4 times, not 3 times"),
        ({"left": 1}, "the broker says that 1 records are left"),
        ({"left": None}, "the broker does not say whether records are left"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_what_is_wrong(change: dict[str, object], said: str):
    assert problems(msgspec.structs.replace(GOOD, **change)) == [said]
