"""Which cases of a test `make test` leaves to `make test-long`."""

from collections.abc import Callable, Iterable

import pytest
from _pytest.mark import ParameterSet

from support.clients import CONFLUENT, ClientKind
from support.story import Case


def long(*values: object) -> ParameterSet:
    """A case that it leaves out."""
    return pytest.param(*values, marks=pytest.mark.long)


def shortened(
    cases: Iterable[Case], is_short: Callable[[Case], bool], *more: ClientKind
) -> list[ParameterSet]:
    """Parameters of a test: each case, and `more` that all have; it leaves out what is not short."""
    return [pytest.param(case, *more) if is_short(case) else long(case, *more) for case in cases]


def first_assignor(case: Case) -> bool:
    """One case for each client: range, which all of them have."""
    return case.assignor == case.client.assignors[0]


def first_or_last_assignor(case: Case) -> bool:
    """Range, which the broker has too, and the most intricate that the client has: cooperative, or else sticky."""
    return case.assignor in {case.client.assignors[0], case.client.assignors[-1]}


def of_librdkafka(case: Case) -> bool:
    """One client stands for all, where the others have other cases of the same."""
    return case.client is CONFLUENT
