"""A process that sends back each frame that it gets."""

import sys

from proxy.runtime.frames import framed, read_frame

if __name__ == "__main__":
    while (frame := read_frame(sys.stdin.buffer)) is not None:
        sys.stdout.buffer.write(framed(frame))
        sys.stdout.buffer.flush()
