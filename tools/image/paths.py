"""Where images are made from, and where what takes long is kept for every clone on this machine."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "epochgate" / "image"


class ImageError(Exception):
    """podman, or something that an image is made of, is missing or failed; the message says what."""
