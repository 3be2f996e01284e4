"""Locks a folder of a file system that has no locks, by a file that its holder writes again and again.

Nobody's clock is compared with another's: a run that waits looks whether the file changes, and takes it when it has
been the same for ``expires_s``. So the folder of a run that was killed is free after that time, in which its JVM has
ended too.

HDFS makes a file for one of two writers only. On S3 each write is conditional: of two writers, whatever they have slept
through, one passes. Other object stores have neither here, so after writing each reads what holds: the last one wins.
There two runs that start at once and of which one stands still for seconds between looking and writing can both go on
until the next renewal, at which one of them ends.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pipeline.errors import PipelineError
from pipeline.file_systems import FileSystems, NotThereError
from pipeline.location import Location


class Times(NamedTuple):
    """Seconds."""

    expires_s: float = 60.0
    renewed_every_s: float = 10.0
    settles_s: float = 2.0
    """How long after writing the file its holder looks whether it is still its own."""
    look_s: float = 1.0


DEFAULT_TIMES = Times()


class Lease:
    """One run's lease of a folder. :meth:`check` raises PipelineError once it is not sure to be held any more."""

    def __init__(self, files: FileSystems, file: Location, times: Times = DEFAULT_TIMES) -> None:
        """Take no lease yet."""
        self._files = files
        self._file = file
        self._times = times
        self._id = uuid.uuid4().hex
        self._turn = 0
        self._seen: bytes | None = None
        self._seen_since = time.monotonic()
        self._renewed = 0.0
        self._taken_by_another = False
        self._done = threading.Event()

    def try_take(self) -> bool:
        """Whether the folder is this run's now. Call it again after ``look_s``."""
        content = self._content()
        if content is None:
            written = self._files.write_new(self._file, self._next())
        else:
            if content != self._seen:
                self._seen, self._seen_since = content, time.monotonic()
            written = time.monotonic() - self._seen_since >= self._times.expires_s and self._replace(content)
        if not written:
            return False
        time.sleep(self._times.settles_s)
        self._renewed = time.monotonic()
        return self._is_own(self._content())

    @contextmanager
    def renewed(self) -> Iterator[Callable[[], None]]:
        """Write the file again and again, and delete it at the end. Yields :meth:`check`.

        A run that fails after another one has taken the folder raises PipelineError that says so: the other one has
        deleted what this one has written, and that is what it fails on.
        """
        renewing = threading.Thread(target=self._renew, name="lease", daemon=True)
        renewing.start()
        try:
            yield self.check
        except Exception as error:
            if self._is_lost():
                raise self._lost() from error
            raise
        finally:
            self._done.set()
            renewing.join()
            if self._is_own(self._content()):
                self._files.delete(self._file)

    def check(self) -> None:
        """Raise PipelineError if another run has taken the folder, or may have by now."""
        if self._taken_by_another:
            raise self._lost()
        if time.monotonic() - self._renewed > self._times.expires_s:
            if self._is_lost():  # this run may have slept
                raise self._lost()
            raise PipelineError(
                f"{self._file} cannot be renewed, so another run may take the folder: this one ends"
            )

    def _lost(self) -> PipelineError:
        return PipelineError(f"{self._file}: another run has taken the folder, so this one ends")

    def _is_lost(self) -> bool:
        """Look at once whether another run has taken the folder; False if the file can't be read."""
        try:
            return self._taken_by_another or not self._is_own(self._content())
        except PipelineError:
            return False

    def _renew(self) -> None:
        while not self._done.wait(self._times.renewed_every_s) and not self._taken_by_another:
            asked = time.monotonic()
            try:
                content = self._content()
                self._taken_by_another = not self._is_own(content)
                if content is not None and not self._taken_by_another and self._replace(content):
                    self._renewed = asked
            except PipelineError:  # tried again; `check` ends the run if that lasts
                continue

    def _replace(self, content: bytes) -> bool:
        """Write the file in place of this content; on S3 only if it is still there. Whether it was written."""
        if not self._files.has_tags(self._file):
            self._files.write(self._file, self._next())
            return True
        tag = self._files.tag(self._file)
        if tag is None or self._content() != content:  # no two contents are equal, so the tag is of this one
            return False
        return self._files.write_over(self._file, self._next(), tag)

    def _content(self) -> bytes | None:
        try:
            return self._files.read(self._file)
        except NotThereError:
            return None

    def _next(self) -> bytes:
        self._turn += 1
        return json.dumps({"run": self._id, "turn": self._turn}).encode()

    def _is_own(self, content: bytes | None) -> bool:
        return content is not None and self._id.encode() in content
