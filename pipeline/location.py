"""Names a location that commands read or write: a local path, or a URI of one of Hadoop's file systems.

URIs are read as Hadoop's ``Path`` reads them, so nothing in them is decoded: ``file:/a%20b`` is a folder whose name has
a percent sign, and a space stays a space.
"""

import re
from pathlib import Path

import msgspec

from pipeline.errors import PipelineError

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>/.*)?", re.DOTALL)
_WITH_CONTAINER = frozenset({"abfs", "abfss", "wasb", "wasbs"})
"""Azure's schemes: what stands before the ``@`` is no user but a container."""
_WITH_BUCKET = frozenset({"s3a", "s3", "gs"})
_LOCAL = "file"
_PATTERN = frozenset("{}[]*?\\")
"""Spark takes a path with one of these as a pattern."""


class Location(msgspec.Struct, frozen=True):
    """A folder or a file, which need not be there. ``str()`` gives it as the user wrote it."""

    uri: str
    """As Spark and Hadoop take it. It always has a scheme, so that a cluster's default file system plays no part."""
    shown: str

    def __str__(self) -> str:
        """Return the place for people, without a trailing slash. It has no secret in it."""
        return self.shown

    def __truediv__(self, name: str) -> "Location":
        """Return the place of that name in this folder."""
        return Location(f"{self.uri.rstrip('/')}/{name}", f"{self.shown.rstrip('/')}/{name}")

    @property
    def scheme(self) -> str:
        """Return the scheme, ``file`` for a local path."""
        return self.uri.partition(":")[0]

    @property
    def local(self) -> Path | None:
        """Return the path on this machine; None if it is in another file system."""
        return Path(self.uri.partition(":")[2]) if self.scheme == _LOCAL else None


def of_path(path: Path) -> Location:
    """Return the place of a local path."""
    return Location(f"{_LOCAL}:{path.absolute()}", str(path))


def of(where: Location | Path | str) -> Location:
    """Return the place; a string is one that a user wrote. Raises PipelineError."""
    if isinstance(where, Location):
        return where
    return of_path(where) if isinstance(where, Path) else parse(where)


def parse(text: str) -> Location:
    """Read a place that a user wrote. Raises PipelineError if it is none, without repeating what may be secret.

    Without a slash after the colon it is a local path, whose name may contain colons: ``2026-11-26T10:00``.
    """
    if not text.strip():
        raise PipelineError("the place is empty: expected a path or a URI such as hdfs://namenode/folder")
    if "\0" in text or not _is_unicode(text):
        raise PipelineError(f"{text!a}: the name is not valid UTF-8, or has a NUL in it")
    found = _URI.fullmatch(text)
    if found is None or (found["authority"] is None and found["path"] is None):
        return of_path(Path(text))
    scheme, authority, path = found["scheme"].lower(), found["authority"] or "", found["path"] or "/"
    _refuse_secrets(scheme, authority)
    if scheme == _LOCAL:
        if authority not in {"", "localhost"}:
            raise PipelineError(
                f"{text}: {authority!r} stands where a host would: write file:/folder or file:///folder"
            )
        local = of_path(Path("/" + path.lstrip("/")))
        return Location(local.uri, _without_slash(text))
    if scheme in _WITH_BUCKET and not authority:
        raise PipelineError(f"{text}: names no bucket: expected {scheme}://BUCKET/folder")
    if scheme in _WITH_CONTAINER and not authority:
        raise PipelineError(f"{text}: names no account: expected {scheme}://CONTAINER@ACCOUNT/folder")
    where = _without_slash(f"{scheme}://{authority}{path}" if authority else f"{scheme}:{path}")
    return Location(where, where)


def parse_folder(text: str) -> Location:
    """Read a place of tables, which Spark must not take for a pattern. Raises PipelineError."""
    place = parse(text)
    if found := sorted(_PATTERN & set(place.uri)):
        raise PipelineError(
            f"{text}: Spark takes {' '.join(found)} in a path for a pattern: choose another name"
        )
    return place


def parse_local(text: str) -> Path:
    """Read a place for a command that works without Spark, so without Hadoop's file systems. Raises PipelineError."""
    place = parse(text)
    if place.local is None:
        raise PipelineError(
            f"{place}: this command works without Spark and knows local paths only: copy the folder to or from there"
        )
    return place.local if text.lower().startswith(f"{_LOCAL}:/") else Path(text)


def _refuse_secrets(scheme: str, authority: str) -> None:
    before, has_user, _ = authority.rpartition("@")
    if has_user and (scheme not in _WITH_CONTAINER or ":" in before or "@" in before):
        raise PipelineError(
            f"{scheme}://...@: a user or a password does not belong into a URI, which is printed and logged: give it "
            f"to Hadoop's file system as a setting, in a file or by the environment"
        )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of the command line that are no UTF-8
        return False
    return True


def _without_slash(uri: str) -> str:
    bare = uri.rstrip("/")
    return bare if len(bare) > len(uri.partition(":")[0]) + 1 else uri
