"""Plays a script on a broker: Kafka, or the embedded one."""

import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from coordinator.share_partitions import FINAL_EPOCH, AcquireMode, fetched_batches
from protocol_codecs import ErrorCode
from protocol_codecs import all_messages as m
from protocol_codecs.records import Record, RecordBatch, encode_batch
from tests.coordinator.kafka_backend import Connection
from tests.coordinator.propagation import STILL_COMING, alter_group
from tests.coordinator.share_partitions.play.core_player import PARTITIONS, WARM, add_counts, epoch_of
from tests.coordinator.share_partitions.play.steps import (
    Acknowledge,
    Answer,
    DeleteRecords,
    Disconnect,
    Fetch,
    Gather,
    Produce,
    Script,
    Settings,
    Step,
)

TIMEOUT_S = 30
PAUSE_S = 0.01
RELEASE_S = 0.3
"""How long a broker takes at most to release what a session has acquired: it answers the last request before that."""
_MARGIN = 0.7
"""Locks last so much of their time at least, for all that the steps before their end may take."""


class SettingsRefused(Exception):
    """The broker does not know the settings, or does not allow them: it is an older one, or has its own limits."""


class Disturbed(Exception):
    """The machine paused for so long that locks may have ended where the script does not want it. Play it again."""


class BrokerPlayer:
    """A group and a topic with two partitions of its own, on a broker that is the only one of its cluster."""

    def __init__(
        self, bootstrap: str, settings: Settings, delete_records: Callable[[str, int, int], None]
    ) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = host, int(port)
        self._lock_s = settings.lock_ms / 1000
        self._delete_records = delete_records
        self._name = f"play-{uuid.uuid4().hex[:12]}"
        self._connections: dict[str, Connection] = {}
        self._epochs: dict[str, int] = {}
        self._acquired_at: float | None = None
        self._admin = self._connection("admin")
        try:
            self._configure(settings)
        except SettingsRefused:
            self.close()
            raise
        topic = m.CreateTopicsRequestTopic(
            name=self._name, num_partitions=len(PARTITIONS), replication_factor=1
        )
        made = self._admin.call(m.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 7).topics[0]
        assert made.error_code == 0, made
        self._topic_id = made.topic_id
        self._join()
        self._warm_up()

    def play(self, script: Script) -> list[Answer]:
        return [self._step(step) for step in script.steps]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _configure(self, settings: Settings) -> None:
        values = {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": str(settings.lock_ms),
            "share.delivery.count.limit": str(settings.delivery_count_limit),
            "share.partition.max.record.locks": str(settings.max_record_locks),
            "share.renew.acknowledge.enable": str(settings.renew_enabled).lower(),
        }
        answer = self._admin.call(alter_group(self._name, values), 1).responses[0]
        if answer.error_code:
            raise SettingsRefused(answer.error_message)

    def _join(self) -> None:
        """Have the share coordinator initialize the partitions' state, which a member's assignment brings about."""
        member_id = str(uuid.uuid4())
        epoch = 0

        def is_assigned() -> bool:
            nonlocal epoch
            beat = m.ShareGroupHeartbeatRequest(
                group_id=self._name,
                member_id=member_id,
                member_epoch=epoch,
                subscribed_topic_names=(self._name,),
            )
            answer = self._admin.call(beat, 1)
            if answer.error_code in STILL_COMING:
                return False
            assert answer.error_code == 0, answer
            epoch = answer.member_epoch
            given = answer.assignment.topic_partitions if answer.assignment else ()
            return sum(len(topic.partitions) for topic in given) == len(PARTITIONS)

        _wait_for(is_assigned)

    def _warm_up(self) -> None:
        """Load the share partitions: while they are loading, a fetch is answered without them."""

        def is_loaded() -> bool:
            answer = self._fetch(Fetch(WARM, 0, add=PARTITIONS, wait_ms=1_000))
            return len(answer["partitions"]) == len(PARTITIONS)

        _wait_for(is_loaded)

    def _step(self, step: Step) -> Answer:
        if isinstance(step, Gather):
            return self._gather(step)
        if self._acquired_at is not None and time.monotonic() - self._acquired_at > _MARGIN * self._lock_s:
            raise Disturbed(step)
        if isinstance(step, Produce):
            return self._produce(step)
        if isinstance(step, Fetch):
            return self._until_released(step, self._fetch(step))
        if isinstance(step, Acknowledge):
            return self._until_released(step, self._acknowledge(step))
        if isinstance(step, Disconnect):
            self._connections.pop(step.connection).close()
            time.sleep(RELEASE_S)
            return {}
        assert isinstance(step, DeleteRecords)
        self._delete_records(self._name, step.partition, step.offset)
        return {}

    def _until_released(self, step: Fetch | Acknowledge, answer: Answer) -> Answer:
        if step.epoch == FINAL_EPOCH and answer["error"] == "NONE":
            time.sleep(RELEASE_S)
        return answer

    def _produce(self, step: Produce) -> Answer:
        for size in step.sizes:
            records = tuple(Record(None, b"x", offset_delta=delta) for delta in range(size))
            batch = encode_batch(RecordBatch(records, base_timestamp=int(time.time() * 1000)))
            request = m.ProduceRequest(
                acks=-1,
                timeout_ms=10_000,
                topic_data=(
                    m.ProduceRequestTopic(
                        name=self._name,
                        partition_data=(m.ProduceRequestPartition(index=step.partition, records=batch),),
                    ),
                ),
            )
            answer = self._admin.call(request, 9).responses[0].partition_responses[0]
            assert answer.error_code == 0, answer
        return {}

    def _fetch(self, step: Fetch) -> Answer:
        request = m.ShareFetchRequest(
            group_id=self._name,
            member_id=step.member,
            share_session_epoch=epoch_of(self._epochs, step.member, step.epoch),
            max_wait_ms=0 if step.is_renew_ack else step.wait_ms,
            min_bytes=0 if step.is_renew_ack else 1,
            max_bytes=0 if step.is_renew_ack else 1 << 20,
            max_records=0 if step.is_renew_ack else step.max_records,
            batch_size=step.batch_size,
            share_acquire_mode=int(AcquireMode(step.exactly)),
            is_renew_ack=step.is_renew_ack,
            topics=(
                m.ShareFetchRequestTopic(
                    topic_id=self._topic_id,
                    partitions=tuple(
                        m.ShareFetchRequestPartition(
                            partition_index=number,
                            acknowledgement_batches=_batches(m.ShareFetchRequestAcknowledgementBatch, given),
                        )
                        for number, given in step.named.items()
                    ),
                ),
            )
            if step.named
            else (),
            forgotten_topics_data=(
                m.ShareFetchRequestForgottenTopic(topic_id=self._topic_id, partitions=step.forget),
            )
            if step.forget
            else (),
        )
        response = self._connection(step.connection or step.member).call(request, step.version)
        if response.error_code:
            return {"error": ErrorCode(response.error_code).name}
        answers = {
            partition.partition_index: {
                "error": ErrorCode(partition.error_code).name,
                "acknowledge": ErrorCode(partition.acknowledge_error_code).name,
                "acquired": [
                    [one.first_offset, one.last_offset, one.delivery_count]
                    for one in partition.acquired_records
                ],
                "batches": [
                    [batch.base_offset, batch.last_offset]
                    for batch in fetched_batches(partition.records or b"")
                ],
            }
            for topic in response.responses
            for partition in topic.partitions
        }
        if self._acquired_at is None and any(one["acquired"] for one in answers.values()):
            self._acquired_at = time.monotonic()
        return {"error": "NONE", "partitions": {str(number): answers[number] for number in sorted(answers)}}

    def _acknowledge(self, step: Acknowledge) -> Answer:
        request = m.ShareAcknowledgeRequest(
            group_id=self._name,
            member_id=step.member,
            share_session_epoch=epoch_of(self._epochs, step.member, step.epoch),
            is_renew_ack=step.is_renew_ack,
            topics=(
                m.ShareAcknowledgeRequestTopic(
                    topic_id=self._topic_id,
                    partitions=tuple(
                        m.ShareAcknowledgeRequestPartition(
                            partition_index=number,
                            acknowledgement_batches=_batches(m.ShareAcknowledgeRequestBatch, given),
                        )
                        for number, given in step.acknowledge.items()
                    ),
                ),
            )
            if step.acknowledge
            else (),
        )
        response = self._connection(step.connection or step.member).call(request, step.version)
        if response.error_code:
            return {"error": ErrorCode(response.error_code).name}
        codes = {
            partition.partition_index: ErrorCode(partition.error_code).name
            for topic in response.responses
            for partition in topic.partitions
        }
        return {"error": "NONE", "partitions": {str(number): codes[number] for number in sorted(codes)}}

    def _gather(self, step: Gather) -> Answer:
        counts: dict[str, list[list[int]]] = {}
        left = step.count

        def has_all() -> bool:
            nonlocal left
            left -= add_counts(counts, self._fetch(Fetch(step.member, wait_ms=1_000)))
            return left <= 0

        _wait_for(has_all)
        self._acquired_at = time.monotonic()
        return {"gathered": {number: sorted(counts[number]) for number in sorted(counts)}}

    def _connection(self, name: str) -> Connection:
        if name not in self._connections:
            self._connections[name] = Connection(*self._address, name)
        return self._connections[name]


def _batches(kind: Any, given: Iterable[tuple[int, int, list[int]]]) -> tuple[Any, ...]:
    return tuple(
        kind(first_offset=first, last_offset=last, acknowledge_types=tuple(types))
        for first, last, types in given
    )


def _wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(PAUSE_S)
