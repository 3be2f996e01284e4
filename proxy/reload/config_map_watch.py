"""Watches ConfigMaps at the Kubernetes API: they are listed, then watched from that version on, and so again and again.

Listing again after each watch replaces what a client of many objects needs: bookmarks, and resuming from the version of
the last event. Whatever ends a watch (its time, an expired version, a broken connection), the list says what is so now.
"""

import os
import random
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec
import trio

from protocol_codecs.foreign import JsonDecoder, Undecodable
from proxy.reload.api_server import (
    ANSWER_TIMEOUT_S,
    MAX_LINE_BYTES,
    Answer,
    ApiError,
    ServiceAccount,
    get,
    said,
)

WATCH_S = 300
"""Seconds that the API server is asked to keep a watch open: this, give or take a fifth, so that pods don't meet."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0

_GRACE_S = 15
"""Seconds beyond which a watch that the API server did not end is ended here."""

_MOST_MAPS = 256
_SET_LINE_BYTES = 64 * 1024 * 1024
"""A list of them is one line: 16 MiB of policy, as JSON, with what else is said of each."""

Contents = Mapping[str, str]
T = TypeVar("T")


class Watcher(Protocol):
    """What is told of the ConfigMaps."""

    def found(self, maps: Mapping[str, Contents]) -> None:
        """Take all there are, by name, each with its contents by key. They may be those of before."""

    def lost(self, reason: str) -> None:
        """Take note that an attempt to watch them failed, or a watch broke."""


class _Metadata(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    name: str = ""


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _ConfigMapList(msgspec.Struct):
    metadata: _Metadata
    items: list[_ConfigMap] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class ConfigMapWatch:
    """Watches the ConfigMap ``name`` in the pod's namespace, or all those with certain ``labels`` (a selector).

    ``account`` is asked before each request; it raises :class:`ApiError` if there is none.
    """

    def __init__(
        self,
        name: str | None,
        watcher: Watcher,
        account: Callable[[], ServiceAccount] = lambda: ServiceAccount.of_pod(os.environ),
        *,
        labels: str = "",
    ) -> None:
        # Only with the first selector a Role that names the ConfigMap allows to list and to watch it.
        self._selector = (
            {"labelSelector": labels} if name is None else {"fieldSelector": f"metadata.name={name}"}
        )
        self._max_line_bytes = MAX_LINE_BYTES if name is not None else _SET_LINE_BYTES
        self._maps: dict[str, Contents] = {}
        self._watcher = watcher
        self._account = account
        self._pause_s = FIRST_PAUSE_S

    async def run(self) -> None:
        """List and watch until cancelled. Each error in a row doubles the pause after it, to half a minute."""
        while True:
            try:
                await self._watch(await self._list())
            except ApiError as error:
                self._watcher.lost(str(error))
                await trio.sleep(self._pause_s * random.uniform(0.5, 1))  # noqa: S311  so that pods don't meet
                self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    async def _list(self) -> str:
        """Report what is there now. Returns the version of which that is so."""
        async with self._get() as answer:
            with trio.fail_after(ANSWER_TIMEOUT_S):
                found = _decoded(await answer.line() or b"", _ConfigMapList)
        self._maps = {one.metadata.name: one.data or {} for one in found.items or ()}
        self._report()
        return found.metadata.resource_version

    async def _watch(self, version: str) -> None:
        """Report changes after ``version`` until the API server ends the watch.

        :raises ApiError: it broke, or it ended before its time, for example because the version is too old by now.
        """
        seconds = int(WATCH_S * random.uniform(0.8, 1.2))  # noqa: S311  no secret
        began = trio.current_time()
        async with self._get(watch="1", resourceVersion=version, timeoutSeconds=str(seconds)) as answer:
            with trio.move_on_after(seconds + _GRACE_S):
                while (line := await answer.line()) is not None:
                    self._take(line)
                    self._pause_s = FIRST_PAUSE_S
        if trio.current_time() - began < FIRST_PAUSE_S:
            raise ApiError("the watch ended as soon as it began")
        self._pause_s = FIRST_PAUSE_S

    def _take(self, line: bytes) -> None:
        event = _decoded(line, _Event)
        match event.type:
            case "ADDED" | "MODIFIED":
                one = _decoded(event.object, _ConfigMap)
                self._maps[one.metadata.name] = one.data or {}
                self._report()
            case "DELETED":
                self._maps.pop(_decoded(event.object, _ConfigMap).metadata.name, None)
                self._report()
            case "ERROR":
                raise ApiError(f"the watch ended: {said(bytes(event.object))}")

    def _report(self) -> None:
        if len(self._maps) > _MOST_MAPS:
            raise ApiError(f"{len(self._maps)} ConfigMaps, more than {_MOST_MAPS}")
        self._watcher.found(dict(self._maps))

    def _get(self, **query: str) -> AbstractAsyncContextManager[Answer]:
        account = self._account()
        path = f"/api/v1/namespaces/{quote(account.namespace)}/configmaps"
        return get(account, f"{path}?{urlencode({**self._selector, **query})}", self._max_line_bytes)


def _decoded(text: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return JsonDecoder(kind, _SET_LINE_BYTES).decode(bytes(text))
    except Undecodable as error:
        raise ApiError(f"not what the Kubernetes API says: {error}") from None
