"""What a child says is foreign: whatever it is, its end is the only exception that its parent sees."""

import msgspec
import pytest
import trio

from proxy.runtime.frames import message_decoder
from proxy.runtime.kafka_process import KafkaProcess, ProcessEnded
from tests.proxy.fakes.bytes_of_a_child import NO_MESSAGES

DECODER = message_decoder(tuple[str, list[bytes]])
MESSAGE = ("text", [b"bytes"])


async def test_a_message_arrives_as_it_was_sent():
    process = KafkaProcess("tests.proxy.fakes.echoing_child")
    await process.start()
    try:
        await process.send(msgspec.msgpack.encode(MESSAGE))
        assert await process.receive_message(DECODER) == MESSAGE
    finally:
        await process.close()


@pytest.mark.parametrize("said", NO_MESSAGES.values(), ids=NO_MESSAGES)
async def test_a_child_that_sends_what_is_no_message_is_ended(said):
    crashes: list[bool] = []
    process = KafkaProcess("tests.proxy.fakes.echoing_child", lambda: crashes.append(True))
    await process.start()
    try:
        await process.send(said)
        with pytest.raises(ProcessEnded, match="what is no message"), trio.fail_after(30):
            await process.receive_message(DECODER)
        assert crashes == [True]
    finally:
        await process.close()
