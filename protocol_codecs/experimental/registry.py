"""The experiment's APIs by key. All have version 0 only, which is flexible."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from protocol_codecs.experimental import client_assignors as c
from protocol_codecs.experimental_keys import ExperimentalApiKey
from protocol_codecs.message import Message

REQUEST_HEADER_VERSION = 2
RESPONSE_HEADER_VERSION = 1


class ExperimentalApi(msgspec.Struct, frozen=True):
    """Request and response of one API."""

    request: type[Message]
    response: type[Message]


EXPERIMENTAL_APIS: Mapping[int, ExperimentalApi] = MappingProxyType(
    {
        ExperimentalApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT: ExperimentalApi(
            c.ConsumerGroupPrepareAssignmentRequest, c.ConsumerGroupPrepareAssignmentResponse
        ),
        ExperimentalApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT: ExperimentalApi(
            c.ConsumerGroupInstallAssignmentRequest, c.ConsumerGroupInstallAssignmentResponse
        ),
    }
)
