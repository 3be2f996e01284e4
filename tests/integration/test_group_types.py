"""Who joins with the id of a group of another type: what brokers answer, and the proxy where its policy says the type.

``type`` in a rule of the policy is told to the proxy alone: the groups of these ids do not exist at the broker. What it
answers is compared with what the broker answers for groups that do.
"""

import dataclasses
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from kio.schema.errors import ErrorCode
from support import joins
from support.broker import Kafka
from support.clients import CONFLUENT, JAVA
from support.consumers import ConsumerProcess
from support.entry import Proxy, running_proxy
from support.joins import Join
from support.raw import PlainLogin, RawConnection
from support.raw_new_member import LOADING
from support.secured import TlsFiles, allow, secret, secured_cluster
from support.share import SHARE_CONSUMER
from support.streams import StreamsApplication, expected
from support.waiting import eventually

from tests.skips import not_here
from tools.kafka.cluster import Cluster

pytestmark = pytest.mark.kafka

POLICY = """\
default: observe
rules:
  - {pattern: "consumer-.*", mode: translate, type: consumer}
  - {pattern: "share-.*", mode: observe, type: share}
  - {pattern: "streams-.*", mode: observe, type: streams}
  - {pattern: "closed-.*", mode: reject}
"""

MAY_READ, STRANGER = "alice", "bob"

of_another_type = pytest.mark.parametrize(
    ("kind", "join"),
    [
        pytest.param(kind, join, id=f"{join.__name__}-{kind}")
        for kind in joins.OF_TYPE
        for join in joins.ALL
        if join is not joins.OF_TYPE[kind] and (kind != "consumer" or join is not joins.join_group)
    ],
)


@pytest.fixture(scope="module")
def cluster(own_kafka_of_module, empty_folder) -> Cluster:
    return own_kafka_of_module(**secured_cluster(TlsFiles(empty_folder("group-types-tls"))))


@pytest.fixture(scope="module")
def kafka(cluster) -> Kafka:
    if cluster.version < "4.2":
        not_here(f"Kafka {cluster.version} has share and streams groups as a preview only, switched off")
    return Kafka(cluster.bootstrap, source="secured", version=cluster.version)


@pytest.fixture(scope="module")
def topic(kafka) -> str:
    name = kafka.new_topic(partitions=1)
    allow(kafka.admin, MAY_READ, ResourceType.TOPIC, name, AclOperation.READ)
    return name


@pytest.fixture(scope="module")
def proxy(kafka, empty_folder) -> Iterator[Proxy]:
    with running_proxy(kafka.bootstrap, empty_folder("group-types-proxy"), policy=POLICY) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def secured_proxy(cluster, kafka, empty_folder) -> Iterator[Proxy]:
    folder = empty_folder("group-types-secured-proxy")
    with running_proxy(cluster.bootstrap_of("SASL"), folder, policy=POLICY) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def existing(kafka, topic) -> Iterator[dict[str, str]]:
    """{type: the id of a group of this type, with a member}."""
    groups = {kind: new_id(kind) for kind in joins.OF_TYPE}
    members = {kind: heartbeat(groups[kind], topic) for kind, heartbeat in joins.OF_TYPE.items()}
    with RawConnection(kafka.bootstrap) as connection:
        for member in members.values():
            assert called(connection, member).error_code == ErrorCode.none
        assert {kind: kafka.type_of(group) for kind, group in groups.items()} == {
            kind: kind for kind in groups
        }
        yield groups
        for member in members.values():
            connection.call(joins.leaving(member))


def new_id(kind: str) -> str:
    """The id of a group that does not exist; the policies here know it by its beginning."""
    return f"{kind}-{uuid.uuid4().hex[:8]}"


def called(connection: RawConnection, request: Any) -> Any:
    """The answer of a coordinator that has loaded its groups."""
    return eventually(
        lambda: connection.call(request),
        lambda answer: answer.error_code != LOADING,
        what="the coordinator has loaded its groups",
    )


def answered(
    entry: str, join: Join, group: str, topic: str, login: PlainLogin | None = None
) -> dict[str, Any]:
    """All fields of the answer, without what differs from call to call."""
    with RawConnection(entry, login=login) as connection:
        request = join(group, topic)
        answer = dataclasses.asdict(called(connection, request))
    del answer["throttle_time"]
    return {
        name: text.replace(group, "GROUP") if isinstance(text, str) else text for name, text in answer.items()
    }


@of_another_type
def test_the_proxy_answers_as_a_broker_that_has_a_group_of_the_other_type(
    kafka, proxy, existing, topic, kind, join
):
    straight = answered(kafka.bootstrap, join, existing[kind], topic)
    assert straight["error_code"] != ErrorCode.none
    nowhere = new_id(kind)
    assert answered(proxy.bootstrap, join, nowhere, topic) == straight
    assert kafka.type_of(nowhere) is None, "the broker has seen the call"


@pytest.mark.parametrize("kind", joins.OF_TYPE)
def test_a_member_of_that_type_joins_through_the_proxy(kafka, proxy, topic, kind):
    group = new_id(kind)
    member = joins.OF_TYPE[kind](group, topic)
    with RawConnection(proxy.bootstrap) as connection:
        assert called(connection, member).error_code == ErrorCode.none
        assert kafka.type_of(group) == kind
        connection.call(joins.leaving(member))


@pytest.mark.parametrize("join", joins.ALL, ids=lambda join: join.__name__)
def test_a_rejected_group_lets_in_nobody(cluster, kafka, proxy, topic, join):
    """They are told what a broker says to somebody who may not read the group."""
    stranger = PlainLogin(STRANGER, secret(STRANGER))
    refused = answered(cluster.bootstrap_of("SASL"), join, new_id("closed"), topic, stranger)
    assert refused["error_code"] == ErrorCode.group_authorization_failed
    group = new_id("closed")
    assert answered(proxy.bootstrap, join, group, topic) == refused
    assert kafka.type_of(group) is None, "the broker has seen the call"


@of_another_type
def test_a_stranger_gets_the_brokers_own_refusal(cluster, kafka, secured_proxy, topic, kind, join):
    group = new_id(kind)
    allow(kafka.admin, MAY_READ, ResourceType.GROUP, group, AclOperation.READ)
    stranger, member = (PlainLogin(user, secret(user)) for user in (STRANGER, MAY_READ))
    direct = answered(cluster.bootstrap_of("SASL"), join, group, topic, stranger)
    assert direct["error_code"] == ErrorCode.group_authorization_failed
    assert answered(secured_proxy.bootstrap, join, group, topic, stranger) == direct
    known = answered(secured_proxy.bootstrap, join, group, topic, member)
    assert known["error_code"] == (
        ErrorCode.inconsistent_group_protocol if join is joins.join_group else ErrorCode.group_id_not_found
    )
    assert kafka.type_of(group) is None, "the broker has seen the call"


# -- the same by client libraries ------------------------------------------------------------------------------


def last_words(consumer: ConsumerProcess, group: str) -> str:
    """What a client raises into its application, or reports as fatal."""
    said = consumer.wait_for("failed", "error")
    return str(said.fields["error"]).replace(group, "GROUP")


@pytest.mark.parametrize(
    ("client", "error"),
    [(JAVA, "GroupIdNotFoundException"), (CONFLUENT, "The group id does not exist")],
    ids=lambda value: str(value).partition(" ")[0],
)
@pytest.mark.parametrize("kind", ["share", "streams"])
def test_a_native_consumer_is_told_the_same_as_by_a_broker(
    kafka, proxy, consumers, existing, topic, kind, client, error
):
    words = []
    for entry, group in ((kafka.bootstrap, existing[kind]), (proxy.bootstrap, new_id(kind))):
        consumer = consumers.start(client, entry, group, topic, group_protocol="consumer")
        words.append(last_words(consumer, group))
    direct, through = words
    assert error in direct
    assert through == direct


@pytest.mark.parametrize("kind", ["consumer", "streams"])
def test_a_share_consumer_is_told_the_same_as_by_a_broker(kafka, proxy, consumers, existing, topic, kind):
    words = []
    for number, (entry, group) in enumerate(
        ((kafka.bootstrap, existing[kind]), (proxy.bootstrap, new_id(kind)))
    ):
        spec = {"bootstrap": entry, "group": group, "topic": topic, "client_id": f"s{number}"}
        consumer = consumers.start(
            SHARE_CONSUMER, entry, group, topic, name=f"s{number}", only={**spec, "mode": "implicit"}
        )
        words.append(last_words(consumer, group))
    direct, through = words
    assert "GroupIdNotFoundException" in direct
    assert through == direct


# -- a Streams application that is stopped, and a stray consumer -----------------------------------------------


@pytest.fixture
def stopped(kafka, proxy, consumers, behind_proxy) -> tuple[StreamsApplication, list[Any]]:
    """An application that has counted these records, and whose only instance has closed."""
    entry = proxy.bootstrap if behind_proxy else kafka.bootstrap
    application = StreamsApplication(kafka, entry, consumers, new_id("streams"), "streams")
    instance = application.start()
    records = kafka.produce(application.input, 60)
    application.wait_until_counted(records)
    instance.close()
    assert kafka.type_of(application.group) == "streams"
    return application, records


@pytest.mark.parametrize("behind_proxy", [True], ids=["proxy"])
def test_a_stray_consumer_is_kept_from_the_group_of_a_stopped_application(kafka, proxy, consumers, stopped):
    application, records = stopped
    stray = consumers.start(CONFLUENT, proxy.bootstrap, application.group, application.input, "range")
    assert "inconsistent" in last_words(stray, application.group).lower()
    assert kafka.type_of(application.group) == "streams"
    application.start()
    records += kafka.produce(application.input, 60)
    application.wait_until_counted(records)
    assert application.counted() == expected(records), "it began anew, or left something out"


@pytest.mark.parametrize("behind_proxy", [False], ids=["direct"])
def test_without_the_proxy_a_stray_consumer_deletes_the_group_and_the_application_does_not_start(
    kafka, consumers, stopped
):
    application, _ = stopped
    stray = consumers.start(CONFLUENT, kafka.bootstrap, application.group, application.input, "range")
    stray.wait_for("assigned")
    assert kafka.type_of(application.group) == "classic"
    assert "GroupIdNotFoundException" in last_words(application.start(), application.group)
