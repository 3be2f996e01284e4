"""The process: listeners, connections, the relay of frames, configuration, command line, admin HTTP.

The only room that knows sockets, clocks and tasks (trio). What a group call means is decided in
``translation``; how a message looks on the wire is decided in ``protocol_codecs``.
"""

VERSION = "0.1.0"  # as pyproject.toml has it; a constant, since reading the package's metadata takes longer
