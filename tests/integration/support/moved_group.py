"""A stepped group that a proxy moves, with a relay before the brokers: races are made by holding a call back."""

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from kio.schema.offset_commit.v7.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.static.primitive import i32, i64

from protocol_codecs import ApiKey
from support import raw
from support.broker import Kafka
from support.entry import Proxy, running_proxy
from support.holding_relay import Hold, HoldingRelay
from support.live_group import MODE
from support.stepped_group import Client, SteppedGroup, stepped_group

HELPER = "helper-epochgate-"


class Moved:
    """A stepped group behind a proxy, between which and the broker calls can be held."""

    def __init__(self, relay: HoldingRelay, proxy: Proxy, group: SteppedGroup) -> None:
        self.relay, self.proxy, self.group = relay, proxy, group

    def policy(self, mode: str) -> None:
        """Change the policy; return when the proxy has read it."""
        before = self._policy_version()
        (self.proxy.folder / "policy.yaml").write_text(MODE.format(mode=mode))
        self.group.until(lambda: self._policy_version() > before, "the proxy has the policy")

    def _policy_version(self) -> float:
        found = re.search(r"^epochgate_policy_version (\S+)", self.proxy.metrics(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def until_held(self, hold: Hold) -> None:
        """Step until the call has come."""
        self.group.until(lambda: hold.has_come, "the call is held")

    def translate(self) -> None:
        """Move all to the new protocol."""
        self.policy("translate")
        self.group.until_translated()

    def back(self) -> None:
        """Move all back."""
        self.policy("observe")
        self.group.until_classic()

    def commit(self, client: Client) -> Callable[[], int]:
        """OffsetCommit v7 on a connection of its own, sent and not waited for."""
        at = OffsetCommitRequestPartition(
            partition_index=i32(min(client.owned)), committed_offset=i64(1), committed_metadata=None
        )
        request = OffsetCommitRequest(
            group_id=self.group.group,
            generation_id_or_member_epoch=client.generation,
            member_id=client.member_id,
            group_instance_id=None,
            topics=(OffsetCommitRequestTopic(name=client.topic, partitions=(at,)),),
        )
        connection = raw.to_coordinator(self.proxy.bootstrap, self.group.group)
        connection.send(request)

        def answer() -> int:
            with connection:
                return int(connection.receive(request).topics[0].partitions[0].error_code)

        return answer

    @property
    def helpers(self) -> set[bytes]:
        """The ids of all helpers until now."""
        calls = self.relay.calls(ApiKey.CONSUMER_GROUP_HEARTBEAT, HELPER)
        return set(re.findall(HELPER.encode() + rb"[\w-]+", b" ".join(calls)))


@contextlib.contextmanager
def behind_relay(kafka: Kafka, folder: Path, group: str, partitions: int) -> Iterator[Moved]:
    """A group without members, of which a proxy moves what joins; it passes through until a test says otherwise."""
    with (
        HoldingRelay(kafka.bootstrap) as relay,
        running_proxy(relay.bootstrap, folder / "proxy", policy=MODE.format(mode="observe")) as proxy,
        stepped_group(kafka, proxy.bootstrap, group, partitions) as stepped,
    ):
        yield Moved(relay, proxy, stepped)
