"""What a child of :mod:`proxy.runtime.kafka_process` does with its standard streams, and how it ends."""

import os
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

from proxy.runtime.exit_codes import ExitCode
from proxy.runtime.frames import framed, read_frame


def orders() -> Iterator[bytes]:
    """Yield what the parent sends, until it closes standard input."""
    return iter(lambda: read_frame(sys.stdin.buffer), None)


def answer(message: bytes) -> None:
    """Send the parent a message; waits while the parent does not read."""
    sys.stdout.buffer.write(framed(message))
    sys.stdout.buffer.flush()


def run(main: Callable[[], None]) -> NoReturn:
    """Run a child's work, and end its process at once: librdkafka's own end may take long."""
    try:
        main()
    except BrokenPipeError:
        pass  # the parent has ended
    except Exception:  # noqa: BLE001  it ends the process
        sys.excepthook(*sys.exc_info())
        os._exit(ExitCode.INTERNAL_ERROR)
    os._exit(ExitCode.SUCCESS)
