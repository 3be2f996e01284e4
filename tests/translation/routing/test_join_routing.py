"""Which way a JoinGroup takes: translated, relayed or refused."""

from protocol_codecs import ApiKey, ErrorCode
from tests.translation.bench import GROUP, KAFKA_4_3, Bench
from translation.policy.policy import Mode, Policy, Rule


def test_a_broker_without_the_new_protocol_gets_the_calls_as_they_are() -> None:
    bench = Bench(
        versions={key: KAFKA_4_3[key] for key in KAFKA_4_3 if key != ApiKey.CONSUMER_GROUP_HEARTBEAT}
    )
    request = bench.join(bench.connect(), "epochgate-a")
    assert bench.forwarded == [request]
    assert bench.events[-1].reason == "the broker has no ConsumerGroupHeartbeat v1"


def test_observed_groups_pass_through_and_say_what_would_happen() -> None:
    bench = Bench(policy=Policy())
    connection = bench.connect()
    requests = [
        bench.join(connection, "epochgate-a"),
        bench.sync(connection, "epochgate-a", 1),
        bench.commit(connection, "epochgate-a", 1, version=9),
        bench.leave(connection, "epochgate-a"),
    ]
    assert bench.forwarded == requests
    assert bench.events[0].reason == "observed: translatable"


def test_rejected_groups_get_group_authorization_failed() -> None:
    bench = Bench(policy=Policy(rules=(Rule(group=GROUP, mode=Mode.REJECT),)))
    assert bench.error(bench.join(bench.connect(), "")) == ErrorCode.GROUP_AUTHORIZATION_FAILED
