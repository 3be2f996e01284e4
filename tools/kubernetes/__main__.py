"""``python -m tools.kubernetes up|down|status|image|build``."""

import argparse
import sys
import time

from tools.image import project
from tools.image.paths import ImageError
from tools.kubernetes import binaries, cluster
from tools.kubernetes.paths import KUBECONFIG, ClusterError


def main() -> int:
    """Run one command."""
    parser = argparse.ArgumentParser(prog="python -m tools.kubernetes", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start a cluster and wait until it is ready")
    up.add_argument("--nodes", type=int, default=1, choices=range(1, 6))
    commands.add_parser("down", help="end it and restore what it changed")
    commands.add_parser("status", help="say what runs and what it takes")
    of_image = commands.add_parser(
        "image", help="build the project's image, and hand it to the cluster if one is up"
    )
    of_image.add_argument("--tag", default="", help="the project's version if left out")
    commands.add_parser("build", help="only build the programs, those that only some tests need too")
    of_image.add_argument(
        "--target", default="epochgate", choices=list(project.TARGETS), help="of the Dockerfile"
    )
    arguments = parser.parse_args()
    match arguments.command:
        case "up":
            cluster.up(arguments.nodes)
        case "down":
            began = time.monotonic()
            cluster.down()
            print(f"== down in {time.monotonic() - began:.1f} s", flush=True)
        case "status":
            return cluster.status()
        case "image":
            name = project.build(arguments.tag, arguments.target)
            if KUBECONFIG.exists():
                cluster.import_images([name])
                print("== handed to the cluster's nodes", flush=True)
        case "build":
            binaries.build([*binaries.CLUSTER, *binaries.MONITORING, *binaries.AUTOSCALING])
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ClusterError, ImageError) as reason:
        sys.exit(f"error: {reason}")
