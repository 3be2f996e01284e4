"""What the broker is asked before a JoinGroup begins a membership."""

from protocol_codecs import ApiKey
from protocol_codecs.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from tests.translation.bench import GROUP, NO_CONSUMER_GROUP, Bench, owned


def test_an_id_that_nobody_knows_joins_under_that_id() -> None:
    """The client is not told that its membership is lost: some keep their partitions when JoinGroup fails."""
    bench = Bench(new_group=False)
    join = bench.join(bench.connect(), "epochgate-a", claims=(0,), protocol="cooperative-sticky")
    bench.reply(NO_CONSUMER_GROUP)
    while any(call.api_key == ApiKey.DESCRIBE_GROUPS for call in bench.calls):
        bench.reply(
            DescribeGroupsResponse(groups=(DescribedGroup(group_id=GROUP, group_state="Dead"),)),
        )
        if any(call.api_key == ApiKey.CONSUMER_GROUP_DESCRIBE for call in bench.calls):
            bench.reply(NO_CONSUMER_GROUP)  # nor has it become one meanwhile
    bench.reply_names()  # of what it claims
    request = bench.heartbeat_call().message
    assert (request.member_id, request.member_epoch, owned(request)) == ("epochgate-a", 0, {})
    assert join not in bench.answers
