"""``python -m tools.chart build|docs|golden``."""

import sys

from tools.chart import binaries, readme, render


def main() -> int:
    """Run the command of the command line."""
    match sys.argv[1:]:
        case ["build"]:
            print(f"helm and the others are in {binaries.binary('helm').parent}")
        case ["docs"]:
            readme.PATH.write_text(readme.wanted(), encoding="utf-8")
            print(f"wrote {readme.PATH}")
        case ["golden"]:
            for variant in render.GOLDEN:
                (render.GOLDEN_FILES / f"{variant}.yaml").write_text(render.golden(variant), encoding="utf-8")
                print(f"wrote {variant}.yaml")
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except binaries.NoGoError as reason:
        sys.exit(f"error: {reason}")
