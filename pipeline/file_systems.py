"""Reads and writes small files where Spark reads and writes tables: through the driver's Hadoop file systems.

Local places go through Python, as they always have: Hadoop's local file system would leave a checksum beside each file,
and refuse the file after somebody has edited it.
"""

import contextlib
import functools
import os
import shutil
from collections.abc import Callable, Iterator
from io import SEEK_END
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline import java_errors, location
from pipeline.errors import PipelineError
from pipeline.location import Location

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

_CONNECTORS = {
    "s3a": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "abfs": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "abfss": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "gs": "org.apache.hadoop:hadoop-gcp:{hadoop}",
}
"""The Maven artifact with the file system of a scheme. PySpark brings none of these."""
_GS_BEFORE_HADOOP_3_5 = "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.21"
_INSTEAD = {"s3": "s3a", "s3n": "s3a", "wasb": "abfs", "wasbs": "abfss"}
_NO_SUCH_SCHEME = "UnsupportedFileSystemException"
_LACKS_CLASS = frozenset({"ClassNotFoundException", "NoClassDefFoundError", _NO_SUCH_SCHEME})
_DENIED = frozenset({"AccessControlException", "AccessDeniedException", "AuthorizationException"})
_ABSENT = frozenset({"FileNotFoundException", "NoSuchFileException", "UnknownStoreException"})
_UNREACHABLE = frozenset(
    {"UnknownHostException", "ConnectException", "NoRouteToHostException", "SocketTimeoutException"}
)
_OBJECTS = frozenset({"s3a", "gs"})
"""Schemes of stores where writing an object is one step, and renaming one is a copy."""
_IF_ABSENT = "fs.option.create.conditional.overwrite"
_IF_TAG = "fs.option.create.conditional.overwrite.etag"
"""Options of S3A (Hadoop 3.5 has both): a PUT with If-None-Match, and with If-Match."""
_CONDITION_FAILED = frozenset({"RemoteFileChangedException", "FileAlreadyExistsException"})
_LARGEST = 256 * 2**20
"""Bytes of a file that is read here; that of the largest cluster's topics has a tenth of it."""


_DEPTH = 6
"""So many folders deep are hidden files looked for."""


class Found(NamedTuple):
    """A file: its size in bytes, and when it was changed last, milliseconds since 1970."""

    place: Location
    size: int
    changed_ms: int


class NotThereError(PipelineError):
    """A file that is not there."""


class FileSystems:
    """The file systems that a Spark session knows. Every method raises PipelineError, of one line.

    Local places don't need the session's JVM; the others do, and can't be reached if it is elsewhere (Spark Connect).
    """

    def __init__(self, spark: "SparkSession") -> None:
        """Take the settings of the session where they are first needed."""
        self._spark = spark

    @functools.cached_property
    def _java(self) -> Any:
        java = self._spark.sparkContext._jvm  # noqa: SLF001 - PySpark's way to what only the JVM can do
        if java is None:
            raise PipelineError("the pipeline needs a Spark driver of its own, not Spark Connect")
        return java

    @functools.cached_property
    def _settings(self) -> "JavaObject":
        return self._spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - as above

    def is_folder(self, at: Location) -> bool:
        """Whether the location is a folder; False if it is not there."""
        if at.local is not None:
            return at.local.is_dir()
        with self._explained(at):
            files, path = self._open(at)
            return bool(files.exists(path) and files.getFileStatus(path).isDirectory())

    def make_folder(self, at: Location) -> None:
        """Make the folder and those above it, where they are not there yet."""
        with self._explained(at):
            if at.local is not None:
                at.local.mkdir(parents=True, exist_ok=True)
                return
            files, path = self._open(at)
            files.mkdirs(path)

    def names(self, folder: Location) -> list[str]:
        """Return the names of what is in a folder, sorted."""
        with self._explained(folder):
            if folder.local is not None:
                return sorted(one.name for one in folder.local.iterdir())
            files, path = self._open(folder)
            return sorted(one.getPath().getName() for one in files.listStatus(path))

    def read(self, at: Location) -> bytes:
        """Return the content of a small file; of one that is larger than 256 MiB its beginning.

        Raises NotThereError if there is none.
        """
        with self._explained(at):
            if at.local is not None:
                with at.local.open("rb") as opened:
                    return opened.read(_LARGEST)
            files, path = self._open(at)
            stream = files.open(path)
            try:
                return bytes(stream.readNBytes(_LARGEST))
            finally:
                stream.close()

    def hidden(self, folder: Location, suffix: str) -> list[Found]:
        """Return the files in a folder and its sub-folders that Spark passes over, since they begin with ``_``."""
        with self._explained(folder):
            if folder.local is not None:
                paths = sorted(folder.local.rglob(f"_*{suffix}"))
                known = [(path, path.stat()) for path in paths if path.is_file()]
                return [
                    Found(location.of_path(path), status.st_size, int(status.st_mtime * 1000))
                    for path, status in known
                ]
            files, _ = self._open(folder)
            found = []
            for depth in range(_DEPTH):
                pattern = (folder / ("*/" * depth + f"_*{suffix}")).uri
                for one in files.globStatus(self._java.org.apache.hadoop.fs.Path(pattern)) or ():
                    place = location.parse(one.getPath().toString())
                    found.append(Found(place, one.getLen(), one.getModificationTime()))
            return found

    def edges(self, at: Location, most: int) -> tuple[bytes, bytes]:
        """Return so many bytes from the beginning and from the end of a file, which is finished meanwhile maybe.

        Raises NotThereError if it is gone.
        """
        with self._explained(at):
            if at.local is not None:
                with at.local.open("rb") as opened:
                    beginning = opened.read(most)
                    opened.seek(max(opened.seek(0, SEEK_END) - most, 0))
                    return beginning, opened.read(most)
            files, path = self._open(at)
            size = files.getFileStatus(path).getLen()
            stream = files.open(path)
            try:
                beginning = bytes(stream.readNBytes(most))
                stream.seek(max(size - most, 0))
                return beginning, bytes(stream.readNBytes(most))
            finally:
                stream.close()

    def write(self, at: Location, content: bytes) -> None:
        """Write a small file, in place of one that is there."""
        with self._explained(at):
            if at.local is not None:
                at.local.write_bytes(content)
                return
            self._create(at, content, overwrite=True)

    def replace(self, at: Location, content: bytes) -> None:
        """Write a small file in place of one that is there: a reader, and a crash, see the old one or the new one.

        Local: written beside it and renamed, on the disk before this returns. Object stores (``s3a``, ``gs``) make an
        object visible when it is complete. Others rename over it, which HDFS and Azure's hierarchical accounts do at
        once; a file system that cannot says so, and keeps the old file.
        """
        with self._explained(at):
            if at.local is not None:
                _replace_local(at.local, content)
                return
            if at.scheme in _OBJECTS:
                self._create(at, content, overwrite=True)
                return
            beside = Location(f"{at.uri}.new", f"{at}.new")
            self._create(beside, content, overwrite=True)
            source, target = self._open(beside)[1], self._open(at)[1]
            hadoop = self._java.org.apache.hadoop.fs
            rename = getattr(hadoop, "Options$Rename")
            options = self._spark.sparkContext._gateway.new_array(rename, 1)  # type: ignore[union-attr]  # noqa: SLF001
            options[0] = rename.OVERWRITE
            context = hadoop.FileContext.getFileContext(target.toUri(), self._settings)
            context.rename(source, target, options)

    def write_new(self, at: Location, content: bytes) -> bool:
        """Write a file unless there is one; whether it was written.

        On S3 by a conditional write, so that of two writers one passes. Other object stores may let both pass.
        """
        with self._explained(at):
            files, path = self._open(at)
            if files.exists(path):
                return False
            if self.has_tags(at):
                return self._create_if(at, content, lambda builder: builder.must(_IF_ABSENT, True))  # noqa: FBT003 - Java's
            try:
                self._create(at, content, overwrite=False)
            except Exception as error:
                if "FileAlreadyExistsException" in java_errors.classes(error):
                    return False
                raise
            return True

    def has_tags(self, at: Location) -> bool:
        """Whether a file there can be replaced on the condition that it is still what it was: so far on S3 only."""
        if at.local is not None:
            return False
        with self._explained(at):
            files, path = self._open(at)
            return all(bool(files.hasPathCapability(path, what)) for what in (_IF_ABSENT, _IF_TAG))

    def tag(self, at: Location) -> str | None:
        """Return what names the content of a file where :meth:`has_tags`; None if it is not there."""
        try:
            with self._explained(at):
                files, path = self._open(at)
                return str(files.getFileStatus(path).getEtag())
        except NotThereError:
            return None

    def write_over(self, at: Location, content: bytes, tag: str | None) -> bool:
        """Write a small file if it still has that tag (None: if there is none); whether it was written.

        Only where :meth:`has_tags`. If the store's answer is lost and the call repeated, this says no although it was
        written: look at the content.
        """
        with self._explained(at):
            if tag is None:
                return self._create_if(at, content, lambda builder: builder.must(_IF_ABSENT, True))  # noqa: FBT003 - Java's
            return self._create_if(at, content, lambda builder: builder.overwrite(True).must(_IF_TAG, tag))  # noqa: FBT003

    def delete(self, at: Location) -> None:
        """Delete a file, if it is there."""
        with self._explained(at):
            if at.local is not None:
                at.local.unlink(missing_ok=True)
                return
            files, path = self._open(at)
            files.delete(path, False)  # noqa: FBT003 - Java's: not recursive

    def rename(self, at: Location, to: Location) -> None:
        """Move a folder or a file within its file system, to where nothing is."""
        with self._explained(at):
            if at.local is not None and to.local is not None:
                at.local.rename(to.local)
                return
            files, path = self._open(at)
            if not files.rename(path, self._java.org.apache.hadoop.fs.Path(to.uri)):
                raise PipelineError(f"{at}: can't be moved to {to}")

    def delete_folder(self, at: Location) -> None:
        """Delete a folder with everything in it, if it is there."""
        with self._explained(at):
            if at.local is not None:
                if at.local.is_dir():
                    shutil.rmtree(at.local)
                return
            files, path = self._open(at)
            files.delete(path, True)  # noqa: FBT003 - Java's: recursive

    def _open(self, at: Location) -> "tuple[JavaObject, JavaObject]":
        path = self._java.org.apache.hadoop.fs.Path(at.uri)
        return path.getFileSystem(self._settings), path

    def _create(self, at: Location, content: bytes, *, overwrite: bool) -> None:
        files, path = self._open(at)
        stream = files.create(path, overwrite)
        try:
            stream.write(content)
        finally:
            stream.close()

    def _create_if(
        self, at: Location, content: bytes, condition: "Callable[[JavaObject], JavaObject]"
    ) -> bool:
        files, path = self._open(at)
        stream = condition(files.createFile(path)).build()
        try:
            stream.write(content)
            stream.close()  # it is now that the store looks
        except Exception as error:
            if java_errors.classes(error) & _CONDITION_FAILED:
                return False
            raise
        return True

    @contextlib.contextmanager
    def _explained(self, at: Location) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise NotThereError(f"{at}: not there") from error
        except OSError as error:
            raise PipelineError(f"{at}: {error.strerror or error}") from error
        except Exception as error:
            if java_errors.classes(error) & _ABSENT:
                raise NotThereError(f"{at}: not there") from error
            why = self._why(at.scheme, error)
            if why is None:
                raise
            raise PipelineError(f"{at}: {why}") from error

    def _why(self, scheme: str, error: BaseException) -> str | None:
        if java_errors.of(error) is None:
            return None
        if java_errors.classes(error) & _LACKS_CLASS:
            return self._connector(scheme, known=_NO_SUCH_SCHEME not in java_errors.classes(error))
        return explanation(error) or java_errors.messages(error)[-1]

    def _connector(self, scheme: str, *, known: bool) -> str:
        """What to add for a scheme; ``known`` if Hadoop's own settings have a class for it."""
        if scheme in _INSTEAD:
            return f"Hadoop has no file system for {scheme}: here; write {_INSTEAD[scheme]}:"
        if scheme not in _CONNECTORS:
            return f"Hadoop has no file system for {scheme}: here"
        artifact = _CONNECTORS[scheme].format(
            hadoop=self._java.org.apache.hadoop.util.VersionInfo.getVersion()
        )
        if scheme == "gs" and not known:
            artifact = _GS_BEFORE_HADOOP_3_5
        return (
            f"the file system for {scheme}: is not on the class path: add --conf spark.jars.packages={artifact} "
            f"(or spark.jars with its jars)"
        )


def _replace_local(path: Path, content: bytes) -> None:
    beside = path.with_name(f"{path.name}.new")
    with beside.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name too, so that the power may fail now
    finally:
        os.close(folder)


def explanation(error: BaseException) -> str | None:
    """Return one line if a file system that refuses or is away is the cause of an error of Spark, else None."""
    classes = java_errors.classes(error)
    for known, words in (
        (_DENIED, "permission denied"),
        (_ABSENT, "not there"),
        (_UNREACHABLE, "cannot be reached"),
    ):
        if classes & known:
            return f"{words}: {java_errors.messages(error)[-1]}"
    return None
