"""``python -m tools.image [--tag TAG] [--target epochgate|pipeline|kafka]``: build an image with podman."""

import argparse
import sys

from tools.image import kafka, project
from tools.image.paths import ImageError
from tools.kafka.jars import KafkaUnavailableError


def main() -> int:
    """Build one image."""
    parser = argparse.ArgumentParser(prog="python -m tools.image", description=__doc__)
    parser.add_argument("--tag", default="", help="the project's version if left out")
    parser.add_argument("--target", default="epochgate", choices=[*project.TARGETS, "kafka"])
    arguments = parser.parse_args()
    if arguments.target == "kafka":
        kafka.build()
    else:
        project.build(arguments.tag, arguments.target)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ImageError, KafkaUnavailableError) as reason:
        sys.exit(f"error: {reason}")
