"""DescribeGroups: the helper of a conversion is no member that old tools know."""

from protocol_codecs import ApiKey
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
)
from protocol_codecs.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tests.translation.bench import GROUP, Bench
from translation.members.conversion import HELPER_PREFIX


def test_the_helper_is_not_described() -> None:
    bench = Bench()
    request = bench.send(bench.connect(), ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=(GROUP,)))
    bench.reply(DescribeGroupsResponse(groups=(DescribedGroup(group_id=GROUP, group_state="Dead"),)))
    members = tuple(
        ConsumerGroupDescribeResponseMember(member_id=member_id)
        for member_id in ("a-member", f"{HELPER_PREFIX}1")
    )
    described = ConsumerGroupDescribeResponseDescribedGroup(
        group_id=GROUP, group_state="Stable", members=members
    )
    bench.reply(ConsumerGroupDescribeResponse(groups=(described,)))
    (group,) = bench.answers[request].groups
    assert [member.member_id for member in group.members] == ["a-member"]
