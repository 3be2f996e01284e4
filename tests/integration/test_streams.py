"""Kafka Streams applications behind the proxy, each story beside the same one without it.

They run with ``group.protocol=streams`` (KIP-1071) and as classic consumers with an assignor of their own. The proxy's
policy translates every group, and leaves both alone.
"""

import json
from collections.abc import Iterator

import pytest
from support.entry import Proxy, running_proxy
from support.streams import STREAMS, StreamsApplication, expected
from support.tracing import needs_strace, ports_of, trace_file, traced

from tests.skips import not_here

pytestmark = pytest.mark.kafka

both = pytest.mark.parametrize(
    "behind_proxy",
    [pytest.param(False, marks=pytest.mark.long, id="direct"), pytest.param(True, id="proxy")],
)


@pytest.fixture(autouse=True)
def _released(kafka) -> None:
    if kafka.version < "4.2":
        not_here(f"Kafka {kafka.version} has streams groups as a preview only, switched off")


@pytest.fixture
def proxy(kafka, folder) -> Iterator[Proxy]:
    with running_proxy(kafka.bootstrap, folder / "proxy", policy="default: translate\n") as proxy:
        yield proxy


@pytest.fixture
def application(kafka, proxy, consumers, group, protocol, behind_proxy) -> StreamsApplication:
    bootstrap = proxy.bootstrap if behind_proxy else kafka.bootstrap
    return StreamsApplication(kafka, bootstrap, consumers, group, protocol)


@both
@pytest.mark.parametrize("protocol", ["streams", "classic"])
def test_every_record_is_counted_exactly_once_although_an_instance_is_killed(
    kafka, proxy, application, protocol, behind_proxy
):
    needs_strace()
    victim, other = application.start(), application.start(traced(STREAMS))
    application.wait_until_shared(victim, other)
    records = kafka.produce(application.input, 300)
    application.wait_until_counted(records)
    records += kafka.produce(application.input, 300)
    victim.kill()  # while it counts them
    heir = application.start(traced(STREAMS))
    records += kafka.produce(application.input, 300)
    application.wait_until_counted(records)
    application.wait_until_shared(other, heir)
    assert kafka.type_of(application.group) == protocol
    records += kafka.produce(application.input, 300)
    other.close()
    application.wait_until_counted(records)
    heir.close()
    assert application.counted() == expected(records)
    ports = set(ports_of([trace_file(heir.log.with_name(f"{one.name}.client.log")) for one in (other, heir)]))
    if behind_proxy:
        assert ports <= proxy.ports, "somebody walked past the proxy"
        assert reasons(proxy, application.group) == (
            ["assignor 'stream' is of Kafka Streams"] if protocol == "classic" else []
        )
    else:
        assert int(kafka.bootstrap.rpartition(":")[2]) in ports, "the trace would have shown it"


def reasons(proxy: Proxy, group: str) -> list[str]:
    """Why the proxy did not translate what members of this group sent."""
    lines = [json.loads(line) for line in proxy.log.read_text().splitlines()]
    return [line["reason"] for line in lines if line["event"] == "passed through" and line["group"] == group]
