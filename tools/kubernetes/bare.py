"""Images of programs that need nothing beside them."""

import tarfile
import tempfile
from collections.abc import Sequence

from tools.image.podman import podman
from tools.kubernetes.binaries import binary

_NOBODY = "65534:65534"


def make(image: str, programs: Sequence[str]) -> None:
    """Make an image with nothing but these programs of ours in ``/bin``; it starts the first, as nobody.

    :raises ImageError: podman fails.
    """
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            for program in programs:
                archive.add(binary(program), f"bin/{program}")
        file.flush()
        starts = f'--change=ENTRYPOINT ["/bin/{programs[0]}"]'
        podman("import", "--quiet", starts, f"--change=USER {_NOBODY}", file.name, image)
