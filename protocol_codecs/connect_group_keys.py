"""Private numbers of the calls and errors of Connect groups, which Kafka never numbered: KIP-848 says "TBD".

They are apart from :mod:`protocol_codecs.connect_groups`, so that the proxy can refuse these APIs without knowing them.
"""

from enum import IntEnum


class ConnectApiKey(IntEnum):
    """Keys of the calls of Connect workers, by the KIP's names."""

    CONNECT_GROUP_HEARTBEAT = 20080
    CONNECT_GROUP_PREPARE_ASSIGNMENT = 20081
    CONNECT_GROUP_INSTALL_ASSIGNMENT = 20082


class ConnectErrorCode(IntEnum):
    """Error codes that only assignments computed by members have."""

    INVALID_ASSIGNMENT = 10001


FIRST_TAG = 10000
"""The lowest number of a tagged field that the experiment adds to a message or record of the KIP."""
