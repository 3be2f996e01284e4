"""The embedded coordinator under a script, in virtual time."""

from typing import Any

from msgspec.structs import replace

from coordinator.config import CoordinatorConfig, parse_group_config
from coordinator.group_coordinator import GroupCoordinator
from coordinator.image import MetadataImage, TopicImage
from coordinator.log import MemoryLog
from coordinator.shard import Call, Reply
from coordinator.uuids import SeededUuids
from protocol_codecs import Uuid, decode, encode
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.message import Message
from tests.coordinator.trace import OfferedUuids, Trace

MAX_SIZE = 12
CONFIG = CoordinatorConfig(
    consumer_session_timeout_ms=6_000,
    consumer_min_session_timeout_ms=1_000,
    consumer_heartbeat_interval_ms=500,
    consumer_min_heartbeat_interval_ms=100,
    classic_initial_rebalance_delay_ms=0,
    classic_min_session_timeout_ms=1_000,
    share_session_timeout_ms=6_000,
    share_min_session_timeout_ms=1_000,
    share_heartbeat_interval_ms=500,
    share_min_heartbeat_interval_ms=100,
    share_min_record_lock_duration_ms=1_000,
    consumer_max_size=MAX_SIZE,
    share_max_size=MAX_SIZE,
    classic_max_size=MAX_SIZE,
)
"""As tools/kafka starts its brokers for tests, with the settings of conftest.py."""


class CorePending:
    """A request to the embedded coordinator."""

    def __init__(self, backend: "CoreBackend", request_id: int) -> None:
        self._backend = backend
        self._request_id = request_id

    def arrive(self) -> None:
        """It is there at once."""

    def is_answered(self) -> bool:
        return self._request_id in self._backend.answers

    def result(self) -> Any:
        self._backend.wait_for(self._request_id)
        return self._backend.answers.pop(self._request_id)


class CoreBackend:
    """A coordinator that is asked without a wire; everything is encoded and decoded once on the way all the same.

    With the trace of another run it is asked at the same times, and has the same topic ids and member ids. Without,
    time passes only when a script says so. ``is_shared``: before each request somebody creates a topic elsewhere.
    """

    def __init__(
        self,
        trace: Trace | None = None,
        *,
        config: CoordinatorConfig = CONFIG,
        start_ms: int = 1_000_000,
        is_shared: bool = False,
    ) -> None:
        self._is_shared = is_shared
        self.uuids = OfferedUuids(SeededUuids(1))
        self.log = MemoryLog()
        self.coordinator = GroupCoordinator(config, uuids=self.uuids, log=self.log)
        self.now_ms = start_ms
        self.coordinator.start(self.now_ms)
        self.answers: dict[int, Message] = {}
        self._versions: dict[int, tuple[type[Message], int]] = {}
        self._sent = None if trace is None else iter(trace.sent)
        self._start_ms = start_ms
        self._known = [] if trace is None else list(trace.topics)
        self._names: dict[Uuid, str] = {}
        self._requests = 0

    def send(self, request: Message, version: int, client_id: str) -> CorePending:
        self._requests += 1
        if self._sent is not None:
            sent = next(self._sent, None)
            assert sent is not None, "the other run had fewer requests"
            self._advance_to(self._start_ms + sent.at_ms)
            self.uuids.offer(sent.uuid)
        if self._is_shared:
            topic = TopicImage(Uuid(self._requests.to_bytes(16)), "elsewhere", 1)
            self._update(self.image.with_topic(topic))
        request_type = type(request)
        carried = decode(request_type, version, encode(request, version))
        key = request_type.__schema__.api_key
        assert key is not None
        self._versions[self._requests] = ALL_APIS[key].response, version
        call = Call(self._requests, version, client_id, "/127.0.0.1")
        self._deliver(self.coordinator.handle(carried, call, self.now_ms))
        return CorePending(self, self._requests)

    def wait_for(self, request_id: int) -> None:
        """Let time pass until the answer is there."""
        while request_id not in self.answers:
            deadline_ms = self.coordinator.next_deadline_ms()
            if deadline_ms is None or deadline_ms > self.now_ms + 120_000:
                raise AssertionError(f"request {request_id} is never answered")
            self._advance_to(deadline_ms)

    def create_topic(self, name: str, partitions: int) -> None:
        known = next((topic for topic in self._known if topic.name == name), None)
        if known is not None:
            self._known.remove(known)
            topic = replace(known, partitions=partitions, racks=())
        else:
            topic = TopicImage(self.uuids.next(), name, partitions)
        self._names[topic.topic_id] = name
        self._update(self.image.with_topic(topic))

    def delete_topic(self, name: str) -> None:
        self._update(self.image.without(name))

    def create_partitions(self, name: str, count: int) -> None:
        topic = self.image.by_name(name)
        assert topic is not None
        self._update(self.image.with_topic(replace(topic, partitions=count)))

    def topic_id(self, name: str) -> Uuid:
        topic = self.image.by_name(name)
        assert topic is not None, name
        return topic.topic_id

    def topic_name(self, topic_id: Uuid) -> str:
        return self._names[topic_id]

    def configure_group(self, group_id: str, settings: dict[str, str]) -> None:
        config = parse_group_config(settings, self.coordinator.shard.config)
        self.coordinator.set_group_config(group_id, config)

    def pass_time(self, ms: int) -> None:
        if self._sent is None:
            self._advance_to(self.now_ms + ms)

    @property
    def image(self) -> MetadataImage:
        return self.coordinator.shard.image

    def _update(self, image: MetadataImage) -> None:
        self._deliver(self.coordinator.update_image(image, self.now_ms))

    def _advance_to(self, now_ms: int) -> None:
        """Let every timer fire at its own time on the way."""
        while (deadline_ms := self.coordinator.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self._deliver(self.coordinator.advance(self.now_ms))
        self.now_ms = max(self.now_ms, now_ms)

    def _deliver(self, replies: list[Reply]) -> None:
        for reply in replies:
            response_type, version = self._versions[reply.request_id]
            wire = encode(reply.response, version)
            self.answers[reply.request_id] = decode(response_type, version, wire)
