"""Moves the fragments of changelog.d/ into CHANGELOG.md, under *Unreleased*: `python -m tools.changelog`."""

import argparse
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
WIDTH = 120


def fragments(root: Path) -> list[tuple[str, Path]]:
    """Return each fragment with its kind, by name. A file of another name is an error."""
    found = []
    for file in sorted((root / "changelog.d").glob("*")):
        if file.name == "README.md":
            continue
        kind = file.name.split(".")[-2].capitalize() if file.name.count(".") >= 2 else ""
        if kind not in KINDS or file.suffix != ".md":
            raise ValueError(f"{file.name} is no NAME.KIND.md with one of {', '.join(KINDS).lower()}")
        found.append((kind, file))
    return found


def merged(changelog: str, kind: str, text: str) -> str:
    """Return the changelog with one more entry, the last of its kind; a kind that is not there is made in order."""
    entry = textwrap.fill(
        " ".join(text.split()), WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
    )
    head, unreleased, rest = re.split(r"^(## \[Unreleased\]\n)", changelog, maxsplit=1, flags=re.MULTILINE)
    released = re.search(r"^## \[|^\[Unreleased\]:", rest, re.MULTILINE)
    end = released.start() if released else len(rest)
    sections = re.split(r"^### (.*)\n", rest[:end], flags=re.MULTILINE)
    bodies = dict(zip(sections[1::2], sections[2::2], strict=True))
    bodies[kind] = f"{bodies.get(kind, '').rstrip()}\n{entry}\n\n"
    shown = "".join(f"### {one}\n{bodies[one]}" for one in KINDS if one in bodies)
    return head + unreleased + sections[0] + shown + rest[end:]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the changelog, and remove the fragments that it has now."""
    argparse.ArgumentParser(prog="python -m tools.changelog", description=__doc__).parse_args(arguments)
    page = ROOT / "CHANGELOG.md"
    changelog = page.read_text(encoding="utf-8")
    found = fragments(ROOT)
    for kind, file in found:
        changelog = merged(changelog, kind, file.read_text(encoding="utf-8"))
    page.write_text(changelog, encoding="utf-8")
    for _, file in found:
        file.unlink()
    print(f"{len(found)} entries")


if __name__ == "__main__":
    main()
