"""The image of a Kafka broker: its jars by Maven, in the project's base image, with Debian's Java.

A container of it runs ``/etc/kafka/start.sh``, which is mounted: what kind of broker it is lies outside the image.
"""

import shutil
import tempfile
from pathlib import Path

from tools.image import packages
from tools.image.bases import PYTHON
from tools.image.podman import build_options, podman_aloud
from tools.kafka import jars

IMAGE = f"docker.io/library/epochgate-kafka:{jars.DEFAULT_VERSION}"


def build() -> str:
    """Build it, and return its name.

    :raises ImageError: podman or the base image can't be had, or the build fails.
    :raises jars.KafkaUnavailableError: there is no Java, Maven or network.
    """
    packages.install(packages.NEEDED)
    libs = jars.ensure_jars()
    base = PYTHON.image()
    print(f"== building {IMAGE}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(Path(__file__).with_name("Dockerfile"), folder)
        shutil.copytree(libs, Path(folder) / "libs")
        podman_aloud("build", *build_options(), f"--tag={IMAGE}", f"--build-arg=BASE_IMAGE={base}", folder)
    return IMAGE
