"""Opens the journal's topic for the proof: a process of its own reads it, since librdkafka parses what brokers say."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from proxy.config.fleet import Property
from proxy.proof.journal_messages import ANSWERS, ENCODER, Answer, Lines, Next, Opened, ReadUntil, Unreadable
from proxy.proof.journal_messages import Open as OpenTopic
from proxy.proof.sources import JournalUnreadable, Open, Read, ReadNext
from proxy.runtime.kafka_process import KafkaProcess, ProcessEnded

MODULE = "proxy.proof.journal_process"


def topic_of(name: str, properties: Mapping[str, Property], crashed: Callable[[], None]) -> Open:
    """Return what opens the journal's topic with the account of these librdkafka properties.

    ``crashed`` is called when the process that reads has ended by itself.
    """

    @asynccontextmanager
    async def opened() -> AsyncIterator[ReadNext]:
        process = KafkaProcess(MODULE, crashed)
        try:
            await _send(process, OpenTopic(name, dict(properties)), starts=True)
            answer = await _answer(process)
            if not isinstance(answer, Opened):
                raise await _refuse(process, answer)
            yield partial(_read, process)
        finally:
            await process.close()

    return opened


async def _read(process: KafkaProcess) -> Read:
    await _send(process, Next())
    lines: list[bytes | None] = []
    while isinstance(answer := await _answer(process), Lines):
        lines += answer.lines
    if not isinstance(answer, ReadUntil):
        raise await _refuse(process, answer)
    return Read(lines, answer.until_ms, answer.is_at_end)


async def _send(process: KafkaProcess, message: OpenTopic | Next, *, starts: bool = False) -> None:
    try:
        if starts:
            await process.start()
        await process.send(ENCODER.encode(message))
    except ProcessEnded as ended:
        raise _ended(ended) from None


async def _answer(process: KafkaProcess) -> Answer:
    try:
        return await process.receive_message(ANSWERS)
    except ProcessEnded as ended:
        raise _ended(ended) from None


async def _refuse(process: KafkaProcess, answer: object) -> JournalUnreadable:
    if isinstance(answer, Unreadable):
        return JournalUnreadable(answer.reason)
    return _ended(await process.refuse(f"it sent {type(answer).__name__} out of turn"))


def _ended(ended: ProcessEnded) -> JournalUnreadable:
    return JournalUnreadable(f"the process of the Kafka client: {ended}")
