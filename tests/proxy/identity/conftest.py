"""A scripted broker that makes delegation tokens."""

from collections.abc import AsyncIterator

import pytest
import trio

from tests.proxy.fakes.secured_broker import SecuredBroker, Tokens


@pytest.fixture
async def broker(nursery: trio.Nursery) -> AsyncIterator[SecuredBroker]:
    started = SecuredBroker(1, {}, Tokens())
    started.nursery = nursery
    await started.start()
    yield started
    started.stop()
