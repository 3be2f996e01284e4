"""What the tests of image and chart share."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from support import find_broker
from support.broker import Kafka

from tests.chart.image import Image, ImageError, installed
from tools.chart.binaries import ROOT, NoGoError, binary


def _without(variable: str, reason: str) -> NoReturn:
    """Skip; in CI, where everything must be there, fail."""
    if os.environ.get(variable):
        pytest.fail(f"{variable} is set, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def helm() -> Path:
    """helm, kubeconform and helm-docs are there from here on."""
    try:
        return binary("helm")
    except NoGoError as reason:
        _without("EPOCHGATE_REQUIRE_CHART", f"no helm: {reason}")


@pytest.fixture(scope="session")
def image() -> Image:
    """What the commands of the Dockerfile make, on this machine."""
    try:
        return installed(ROOT / "build" / "chart" / "image")
    except ImageError as reason:
        _without("EPOCHGATE_REQUIRE_CHART", str(reason))


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """A real broker."""
    with contextlib.ExitStack() as stack:
        try:
            broker = stack.enter_context(find_broker.any_broker())
        except find_broker.NoBrokerError as reason:
            _without("EPOCHGATE_REQUIRE_KAFKA", f"no Kafka: {reason}")
        yield broker
