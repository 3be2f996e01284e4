"""Fetches the library that draws the site's diagrams from npm, once: then building and reading need no network.

``python -m tools.docs_site.mermaid`` fetches it into build/docs_site. An archive other than the pinned one is refused.
"""

import base64
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "11.17.2"
SHA512 = "V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg=="
SCRIPT = Path(__file__).parents[2] / "build" / "docs_site" / f"mermaid-{VERSION}.min.js"


class NoMermaidError(Exception):
    """The script does not exist and npm can't fetch it; the message says why."""


def ensure_fetched() -> Path:
    """Fetch the script unless it exists, and return its path.

    :raises NoMermaidError: there is no npm, npm has no network, or the archive is not the pinned one.
    """
    if not SCRIPT.exists():
        script = _script_in(_archive())
        SCRIPT.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=SCRIPT.parent, delete=False) as partial:
            partial.write(script)
        Path(partial.name).chmod(0o644)
        Path(partial.name).replace(SCRIPT)  # several processes may fetch it at once
    return SCRIPT


def _archive() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        pack = ["npm", "pack", "--silent", "--pack-destination", folder, f"mermaid@{VERSION}"]
        try:
            subprocess.run(pack, cwd=folder, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise NoMermaidError("there is no npm: install Debian's package `npm`") from None
        except subprocess.CalledProcessError as error:
            raise NoMermaidError(f"npm pack failed: {error.stderr.strip()[-500:]}") from error
        (file,) = Path(folder).glob("*.tgz")
        return file.read_bytes()


def _script_in(archive: bytes) -> bytes:
    found = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if found != SHA512:
        raise NoMermaidError(f"mermaid {VERSION} from npm has the SHA-512 {found}, not {SHA512}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        member = files.extractfile("package/dist/mermaid.min.js")
        if member is None:
            raise NoMermaidError(f"mermaid {VERSION} has no dist/mermaid.min.js")
        return member.read()


def main() -> int:
    """Fetch it; without it the site shows diagrams as their source text."""
    try:
        ensure_fetched()
    except NoMermaidError as error:
        print(f"== the site will show diagrams as text: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
