"""What the story asks of the brokers themselves, past the proxy: librdkafka's admin client knows no share groups."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import trio

from protocol_codecs import all_messages as m
from protocol_codecs.all_apis import ALL_APIS
from protocol_codecs.codec import decode, decode_prefix, encode
from protocol_codecs.message import Message
from protocol_codecs.registry import request_header_version, response_header_version
from proxy.config.network import Address
from proxy.demo.failure import DemoFailed

_CLIENT = "epochgate-demo"
_TIMEOUT_S = 15.0
_GROUP_RESOURCE = 32
_SET = 0
_LEAVE = -1
T = TypeVar("T")


class ShareGroupAtBroker:
    """A share group as the brokers at ``bootstrap`` have it. Raises DemoFailed if they do not answer."""

    def __init__(self, bootstrap: str, group_id: str) -> None:
        self._bootstrap = Address.parse(bootstrap.split(",", maxsplit=1)[0])
        self._group_id = group_id

    async def configure(self, settings: Mapping[str, str]) -> None:
        """Give the group these settings."""
        configs = tuple(
            m.IncrementalAlterConfigsRequestConfig(name=name, config_operation=_SET, value=value)
            for name, value in settings.items()
        )
        resource = m.IncrementalAlterConfigsRequestResource(
            resource_type=_GROUP_RESOURCE, resource_name=self._group_id, configs=configs
        )
        request = m.IncrementalAlterConfigsRequest(resources=(resource,))
        answer = await self._ask(self._bootstrap, "configure the share group", request, 1)
        _check("configure the share group", answer.responses[0].error_code, answer.responses[0].error_message)

    async def left(self) -> int | None:
        """Return how many records the group has not finished; None if the broker can't tell yet."""
        request = m.DescribeShareGroupOffsetsRequest(
            groups=(m.DescribeShareGroupOffsetsRequestGroup(group_id=self._group_id, topics=None),)
        )
        answer = await self._ask_coordinator("describe the share group's offsets", request, 1)
        group = answer.groups[0]
        _check("describe the share group's offsets", group.error_code, group.error_message)
        lags = [partition.lag for topic in group.topics for partition in topic.partitions]
        return None if not lags or min(lags) < 0 else sum(lags)

    async def remove_members(self) -> None:
        """Let all members leave, on behalf of those that were killed: the broker would keep them for a while."""
        request = m.ShareGroupDescribeRequest(group_ids=(self._group_id,))
        answer = await self._ask_coordinator("describe the share group", request, 1)
        for member in answer.groups[0].members:
            leave = m.ShareGroupHeartbeatRequest(
                group_id=self._group_id, member_id=member.member_id, member_epoch=_LEAVE
            )
            await self._ask_coordinator("remove a member", leave, 1)

    async def _ask_coordinator(self, what: str, request: Message, version: int) -> Any:
        find = m.FindCoordinatorRequest(coordinator_keys=(self._group_id,))
        found = (await self._ask(self._bootstrap, what, find, 4)).coordinators[0]
        _check(what, found.error_code, found.error_message)
        return await self._ask(Address(found.host, found.port), what, request, version)

    async def _ask(self, address: Address, what: str, request: Message, version: int) -> Any:
        return await _in_time(what, lambda: _exchange(address, request, version))


async def _in_time(what: str, ask: Callable[[], Awaitable[T]]) -> T:
    try:
        with trio.fail_after(_TIMEOUT_S):
            return await ask()
    except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
        raise DemoFailed(f"can't {what}: {str(error) or type(error).__name__}") from error


async def _exchange(address: Address, request: Message, version: int) -> Any:
    """Send one request on a connection of its own, and return the answer."""
    key = type(request).__schema__.api_key
    if key is None:
        raise TypeError(f"{type(request).__name__} is no request")
    header = m.RequestHeader(request_api_key=key, request_api_version=version, client_id=_CLIENT)
    content = encode(header, request_header_version(key, version)) + encode(request, version)
    async with await trio.open_tcp_stream(address.host, address.port) as stream:
        await stream.send_all(len(content).to_bytes(4, "big") + content)
        size = int.from_bytes(await _exactly(stream, 4), "big")
        frame = await _exactly(stream, size)
    _, start = decode_prefix(m.ResponseHeader, response_header_version(key, version), frame)
    return decode(ALL_APIS[key].response, version, frame, start)


async def _exactly(stream: trio.abc.ReceiveStream, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = await stream.receive_some(size - len(received))
        if not part:
            raise trio.BrokenResourceError("the broker closed the connection")
        received += part
    return bytes(received)


def _check(what: str, error_code: int, message: str | None) -> None:
    if error_code:
        raise DemoFailed(f"can't {what}: {message or error_code}")
