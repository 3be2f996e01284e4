"""With whom, and on which way, the scripts about native members run, and how much of that is in the short form."""

from collections.abc import Sequence

import pytest
from _pytest.mark import ParameterSet

from support.native_group import NATIVES, MemberKind
from tools.kafka.settings import CONSUMER_SESSION_TIMEOUT_MS

NATIVE = tuple(MemberKind(client) for client in NATIVES)
DIRECT, THROUGH = "direct", "translate"
BROKER_SESSION_S = CONSUMER_SESSION_TIMEOUT_MS / 1000
SLACK_S = 6.0
"""For the others to hear of it at their heartbeats, on a machine that does other things too."""


def each_native(
    *natives: MemberKind, costly: bool = False, through: Sequence[MemberKind] = ()
) -> pytest.MarkDecorator:
    """Each library (of `natives`, or all), straight at the broker and through the proxy; of `through`, not straight.

    In the short form the first library goes both ways, and the others go through the proxy only; not even that where
    it is `costly`, because a session has to expire. Of `through` it has the first.
    """
    first, *others = natives or NATIVE
    return pytest.mark.parametrize(
        ("native", "mode"),
        [
            *(_case(first, mode) for mode in (DIRECT, THROUGH)),
            *(_case(native, DIRECT, long=True) for native in others),
            *(_case(native, THROUGH, long=costly) for native in others),
            *(_case(native, THROUGH, long=native != through[0]) for native in through),
        ],
    )


def each_native_straight(*natives: MemberKind) -> pytest.MarkDecorator:
    """Each of these libraries, straight at the broker only; in the short form the first of them."""
    return pytest.mark.parametrize(
        ("native", "mode"),
        [_case(native, DIRECT, long=native != natives[0]) for native in natives],
    )


both_ways = pytest.mark.parametrize("mode", [pytest.param(DIRECT, marks=pytest.mark.long), THROUGH])
"""A script for all libraries together; in the short form through the proxy only."""

each_native_through_the_proxy = pytest.mark.parametrize(
    "native",
    [pytest.param(native, marks=pytest.mark.long if native != NATIVE[0] else ()) for native in NATIVE],
    ids=str,
)
"""A script that makes no sense straight at the broker; in the short form for the first library."""


def _case(native: MemberKind, mode: str, *, long: bool = False) -> ParameterSet:
    return pytest.param(native, mode, id=f"{native}-{mode}", marks=pytest.mark.long if long else ())
