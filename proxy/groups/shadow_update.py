"""When the forecast of an observed group (``shadow``) is computed again, and within which share of a core.

It asks for the topics on a connection of one of the group's own members, as every question to a broker, and computes in
steps of some milliseconds with a rest after each, so that all of it takes no more of a core than ``processor_share``.
"""

import time
from collections.abc import Iterable
from hashlib import blake2b

import msgspec
import structlog
import trio

from coordinator.assignors import ASSIGNORS, AssignmentImpossible
from coordinator.image import MetadataImage
from protocol_codecs import ApiKey
from protocol_codecs.messages.describe_groups import DescribedGroup
from protocol_codecs.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from proxy.config.shadow import Shadow
from proxy.groups.broker_queries import BrokerQueries, BrokerQuery
from proxy.groups.group_records import GroupRecord
from proxy.groups.group_registry import GroupRegistry
from proxy.metrics.registry import Metrics
from proxy.runtime.wall_clock import WallClock
from proxy.shadow.group import NotComputable, Size, group_of, image_of, topics_of
from proxy.shadow.sampling import forecast
from proxy.shadow.view import ShadowView, not_computable
from translation.actions import Connection
from translation.policy.assignors import map_assignor
from translation.policy.policy import Mode

_log: structlog.stdlib.BoundLogger = structlog.get_logger("proxy.groups.shadowing")

_METADATA_VERSION = 12
_TOPICS_AGE_S = 300.0
"""How long a group's topics are taken to be as they were when it was asked for them."""
_ANSWER_S = 10.0
_SLICE_S = 0.002


class _Known(msgspec.Struct, frozen=True):
    """What the shadow of a group was computed from, and when its topics were asked for, by trio's clock."""

    members: bytes
    topics: bytes
    asked: float


class ShadowUpdate:
    """Brings the forecasts of one process up to date, one group after the other."""

    def __init__(
        self,
        brokers: BrokerQueries,
        registry: GroupRegistry,
        clock: WallClock,
        config: Shadow,
        metrics: Metrics,
    ) -> None:
        self._brokers = brokers
        self._registry = registry
        self._clock = clock
        self._size = Size(config.max_members, config.max_partitions)
        self._metrics = metrics
        self._pace = _Pace(config.processor_share, metrics)
        self._known: dict[str, _Known] = {}

    async def update(self, group_id: str, described: DescribedGroup) -> None:
        """Compute the forecast of a group as a broker has described it, or say why there is none; then rest."""
        if len(self._known) > len(self._registry.groups):
            self._known = {one: known for one, known in self._known.items() if one in self._registry.groups}
        try:
            await self._compute(group_id, described)
        except NotComputable as reason:
            self._store(group_id, self._not_told(str(reason)))
        except AssignmentImpossible:
            self._store(group_id, self._not_told("the broker's own assignor would fail"))
        except Exception as error:  # noqa: BLE001  a bug here must end neither the proxy nor other shadows
            self._metrics.internal_errors.labels("upkeep").inc()
            _log.error("a shadow could not be computed", group=group_id, exc_info=error)
            self._store(group_id, self._not_told("an error of the proxy; its log has it"))
        await self._pace.rest()

    async def _compute(self, group_id: str, described: DescribedGroup) -> None:
        group = self._registry.groups.get(group_id)
        if group is None or group.mode is not Mode.OBSERVE:
            return
        assignor = _vote(group, described)
        if assignor not in ASSIGNORS:
            raise NotComputable(f"the assignor {assignor!r} is none of Kafka's own")
        with self._pace:
            topics = topics_of(described, self._size)
            is_set = group.assignor is not None
            members = _digest_of(described, f"{assignor} {is_set}")
        is_computed = group.shadow is not None and group.shadow.why_not is None
        known, now = self._known.get(group_id) if is_computed else None, trio.current_time()
        is_same = known is not None and known.members == members
        if known is not None and is_same and now < known.asked + _TOPICS_AGE_S:
            return
        metadata = await self._ask_for(group_id, topics)
        if metadata is None:
            if is_computed:
                return  # what was computed before still holds, as far as is known
            raise NotComputable("no broker could be asked for its topics")
        with self._pace:
            image = image_of(metadata, topics, self._size)
            digest = _digest_of_image(image)
        if known is not None and is_same and known.topics == digest:
            self._known[group_id] = msgspec.structs.replace(known, asked=now)
            return
        with self._pace:
            classic = group_of(described, image, assignor, self._size, assignor_is_set=is_set)
            steps = forecast(classic, group_id, self._clock.now_us() / 1_000_000)
        view = await self._last_of(steps)
        if view is not None:
            self._known[group_id] = _Known(members, digest, asked=now)
            self._store(group_id, view)

    async def _last_of(self, steps: Iterable[ShadowView | None]) -> ShadowView | None:
        """Compute step by step within the budget; return the last result."""
        view = None
        iterator = iter(steps)
        while True:
            with self._pace:
                try:
                    view = next(iterator)
                except StopIteration:
                    return view
            await self._pace.rest_if_due()

    async def _ask_for(self, group_id: str, topics: frozenset[str]) -> MetadataResponse | None:
        """Ask a broker for topics, on a connection of a member of the group; None if it does not answer."""
        answers: list[MetadataResponse] = []
        answered = trio.Event()

        def make_query(connection: Connection) -> BrokerQuery | None:
            if connection.version(ApiKey.METADATA, _METADATA_VERSION, _METADATA_VERSION) is None:
                return None
            request = MetadataRequest(
                topics=tuple(MetadataRequestTopic(name=name) for name in sorted(topics)),
                allow_auto_topic_creation=False,
            )
            return BrokerQuery(ApiKey.METADATA, _METADATA_VERSION, request)

        def on_response(response: MetadataResponse) -> None:
            answers.append(response)
            answered.set()

        if self._brokers.ask(group_id, make_query, on_response):
            with trio.move_on_after(_ANSWER_S):
                await answered.wait()
        return answers[0] if answers else None

    def _store(self, group_id: str, view: ShadowView) -> None:
        self._registry.set_shadow(group_id, view)

    def _not_told(self, why: str) -> ShadowView:
        return not_computable(why, self._clock.now_us() / 1_000_000)


class _Pace:
    """Measures the processor time of the work that is done within it, and rests for so long that the share is kept."""

    def __init__(self, share: float, metrics: Metrics) -> None:
        self._rest_for_each_s = 1 / share - 1
        self._metrics = metrics
        self._began = self._used_s = 0.0

    def __enter__(self) -> None:
        self._began = time.thread_time()

    def __exit__(self, *_: object) -> None:
        used_s = time.thread_time() - self._began
        self._used_s += used_s
        self._metrics.shadow_seconds.inc(used_s)

    async def rest_if_due(self) -> None:
        """Rest once a slice of time is used up."""
        if self._used_s >= _SLICE_S:
            await self.rest()

    async def rest(self) -> None:
        """Let all others run, for as long as what was used asks for."""
        used_s, self._used_s = self._used_s, 0.0
        await trio.sleep(used_s * self._rest_for_each_s)


def _vote(group: GroupRecord, described: DescribedGroup) -> str:
    """The server-side assignor that the group's members will vote for when they are translated."""
    if group.assignor is not None:
        return group.assignor
    return map_assignor(_offered(group, described))


def _offered(group: GroupRecord, described: DescribedGroup) -> tuple[str, ...]:
    """The assignors that the group's clients offer; if no JoinGroup was seen, the one in use."""
    return (described.protocol_data,) if group.offer is None else group.offer.assignors


def _digest_of(described: DescribedGroup, clients: str) -> bytes:
    """A digest of what a shadow follows from; members get other ids, so those of today do not matter."""
    hasher = blake2b(clients.encode(), digest_size=16)
    ones = sorted(
        (one.member_metadata, one.member_assignment, one.group_instance_id or "") for one in described.members
    )
    for metadata, assignment, instance in ones:
        for content in (metadata, assignment, instance.encode("utf-8", "surrogatepass")):
            hasher.update(len(content).to_bytes(4, "big") + content)
    return hasher.digest()


def _digest_of_image(image: MetadataImage) -> bytes:
    hasher = blake2b(digest_size=16)
    for topic in image.topics.values():
        hasher.update(topic.digest())
    return hasher.digest()
