"""Private numbers of APIs and errors that Kafka never numbered: KIP-848 says "TBD".

They are apart from :mod:`protocol_codecs.experimental`, so that the proxy can refuse these APIs without knowing them.
"""

from enum import IntEnum


class ExperimentalApiKey(IntEnum):
    """Keys of the calls of a member that computes the assignment, by the KIP's names."""

    CONSUMER_GROUP_PREPARE_ASSIGNMENT = 20070
    CONSUMER_GROUP_INSTALL_ASSIGNMENT = 20071


class ExperimentalErrorCode(IntEnum):
    """Error codes that only client-side assignors have."""

    INVALID_ASSIGNMENT = 10001


FIRST_TAG = 10000
"""The lowest number of a tagged field that the experiment adds to a message or record of Kafka's."""
