"""Of the helpers of several processes one leaves last, and only when all members have the group epoch.

Each helper that leaves moves the group epoch. The last one makes the group a classic one, whose generation that epoch
is: a member with an older one would be answered ILLEGAL_GENERATION, and its client would lose its partitions.
"""

import pytest

from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from tests.translation.bench import GROUP, Bench
from tests.translation.live_groups import OBSERVE_ALL, A
from translation.actions import ConnectionId
from translation.conversion.helper import Helpers
from translation.members.conversion import HELPER_PREFIX, Conversion

CLASSIC, NATIVE = 0, 1
GROUP_EPOCH = 5
FIRST, SECOND = f"{HELPER_PREFIX}1", f"{HELPER_PREFIX}2"


def described(epoch: int, *helpers: str, kind: int = CLASSIC) -> ConsumerGroupDescribeResponseDescribedGroup:
    member = ConsumerGroupDescribeResponseMember(member_id=A, member_epoch=epoch, member_type=kind)
    return ConsumerGroupDescribeResponseDescribedGroup(
        group_id=GROUP,
        group_epoch=GROUP_EPOCH,
        members=(
            member,
            *(ConsumerGroupDescribeResponseMember(member_id=one, member_type=NATIVE) for one in helpers),
        ),
    )


@pytest.mark.parametrize(
    ("own", "group", "leaves"),
    [
        (FIRST, described(GROUP_EPOCH, FIRST), True),
        (FIRST, described(GROUP_EPOCH - 1, FIRST), False),
        (FIRST, described(GROUP_EPOCH, FIRST, kind=NATIVE), False),
        (FIRST, described(GROUP_EPOCH, FIRST, SECOND), False),
        (SECOND, described(GROUP_EPOCH, FIRST, SECOND), True),
        (SECOND, described(GROUP_EPOCH - 1, FIRST, SECOND), True),
        (SECOND, described(GROUP_EPOCH, FIRST, SECOND, kind=NATIVE), False),
        ("", described(GROUP_EPOCH, SECOND), True),
    ],
)
def test_the_helper_leaves_last_and_at_the_group_epoch(
    own: str, group: ConsumerGroupDescribeResponseDescribedGroup, *, leaves: bool
) -> None:
    bench = Bench()
    bench.translator.set_policy(bench.now, OBSERVE_ALL)
    context = bench.translator._context
    conversion = Conversion(
        context.registry.group(GROUP), ConnectionId(1), context.now, lambda _conversion: None
    )
    conversion.helper_id = own
    assert Helpers(context)._is_back(conversion, group) is leaves
