"""Reads small text files that a person has named: certificates, passwords, settings."""

from pathlib import Path

from pipeline.errors import PipelineError

LARGEST = 4 * 1024 * 1024
"""Bytes of a file that is read; bundles of certificates have a few hundred thousand."""


def read_text(file: Path) -> str:
    """Return what a file has. Raises PipelineError if it is no text, larger than 4 MiB, or can't be read."""
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise PipelineError(f"{file} is larger than {LARGEST >> 20} MiB")
        return content.decode()
    except OSError as error:
        raise PipelineError(f"{file} can't be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise PipelineError(f"{file} is no text (UTF-8)") from None
    except ValueError as error:  # a name that no file can have
        raise PipelineError(f"{str(file)!r} can't be read: {error}") from None
