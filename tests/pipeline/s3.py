"""A real S3 server on loopback that can be killed: its objects are files of a folder."""

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

BUCKET: Final = "bucket"
_KEY, _SECRET = "epochgate", "not-a-secret"
_STARTS_S = 30.0


class S3:
    """The server, started and ended by whoever uses it."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.folder = folder / "objects"
        """The bucket's folder is here, its objects are the files in it."""
        self._program = program
        self._log = folder / "s3.log"
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        (self.folder / BUCKET).mkdir(parents=True)

    @property
    def bucket(self) -> Path:
        return self.folder / BUCKET

    @property
    def environment(self) -> dict[str, str]:
        """How S3A's own chain of credentials finds the key."""
        return {"AWS_ACCESS_KEY_ID": _KEY, "AWS_SECRET_ACCESS_KEY": _SECRET}

    @property
    def settings(self) -> dict[str, str]:
        """Spark's, beside the jars."""
        return {
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{self._port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        }

    def put(self, source: Path, name: str) -> str:
        """Make objects of a folder's files, each with the ETag that S3 gives it. Returns their URI.

        What Spark notes with full paths of the folder is left out.
        """
        target = self.bucket / name
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("_spark_metadata", "_checkpoints"))
        for file in target.rglob("*"):
            if file.is_file():
                digest = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
                os.setxattr(file, "user.etag", f'"{digest}"'.encode())
        return f"s3a://{BUCKET}/{name}"

    def start(self) -> None:
        """Start it, again too, and wait until it takes connections."""
        command = [str(self._program), "--port", f"127.0.0.1:{self._port}", "posix", str(self.folder)]
        own = {"ROOT_ACCESS_KEY_ID": _KEY, "ROOT_SECRET_ACCESS_KEY": _SECRET}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **own}
            )
        deadline = time.monotonic() + _STARTS_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1.0):
                return
            assert self._process.poll() is None, self._log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, "the S3 server does not listen"
            time.sleep(0.05)

    def said(self) -> str:
        """Its log, with a line for each call."""
        return self._log.read_text(errors="replace")

    @property
    def is_dead(self) -> bool:
        """Whether somebody has killed it."""
        return self._process is not None and self._process.poll() is not None

    @property
    def words(self) -> tuple[str, str]:
        """What no other process has in its command line."""
        return str(self._program), str(self.folder)

    def kill(self) -> None:
        """End it as a power cut would, from whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
