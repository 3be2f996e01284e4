"""Which combinations of client and assignor `make test` leaves to `make test-long`."""

from collections.abc import Callable, Iterable

import pytest
from _pytest.mark import ParameterSet

from support.clients import CONFLUENT, ClientKind
from support.story import Case


def shortened(
    cases: Iterable[Case], is_short: Callable[[Case], bool], *more: ClientKind
) -> list[ParameterSet]:
    """Parameters of a test: each case, and `more` that all have; cases that are not short are marked `long`."""
    return [pytest.param(case, *more, marks=() if is_short(case) else pytest.mark.long) for case in cases]


def first_assignor(case: Case) -> bool:
    """One case for each client: range, which all of them have."""
    return case.assignor == case.client.assignors[0]


def first_or_last_assignor(case: Case) -> bool:
    """Range, which the broker has too, and the most intricate that the client has: cooperative, or else sticky."""
    return case.assignor in {case.client.assignors[0], case.client.assignors[-1]}


def of_librdkafka(case: Case) -> bool:
    """One client stands for all, where the others have other cases of the same."""
    return case.client is CONFLUENT
