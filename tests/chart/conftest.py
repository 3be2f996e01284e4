"""What the tests of image and chart share."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import find_broker
from support.broker import Kafka

from tests.chart.image import Image, ImageError, installed
from tests.skips import Need, without
from tools.chart.binaries import ROOT, NoGoError, binary


@pytest.fixture(scope="session")
def helm() -> Path:
    """helm, kubeconform and helm-docs are there from here on."""
    try:
        return binary("helm")
    except NoGoError as reason:
        without(Need.CHART, f"no helm: {reason}")


@pytest.fixture(scope="session")
def image() -> Image:
    """What the commands of the Dockerfile make, on this machine."""
    try:
        return installed(ROOT / "build" / "chart" / "image")
    except ImageError as reason:
        without(Need.CHART, reason)


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """A real broker."""
    with contextlib.ExitStack() as stack:
        try:
            broker = stack.enter_context(find_broker.any_broker())
        except find_broker.NoBrokerError as reason:
            without(Need.KAFKA, f"no Kafka: {reason}")
        yield broker
