"""The experiment's APIs by key. All have version 0 only, which is flexible."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from protocol_codecs.connect_group_keys import ConnectApiKey
from protocol_codecs.connect_groups import messages as m
from protocol_codecs.message import Message

VERSION = 0
REQUEST_HEADER_VERSION = 2
RESPONSE_HEADER_VERSION = 1


class ConnectApi(msgspec.Struct, frozen=True):
    """Request and response of one API."""

    request: type[Message]
    response: type[Message]


CONNECT_APIS: Mapping[int, ConnectApi] = MappingProxyType(
    {
        ConnectApiKey.CONNECT_GROUP_HEARTBEAT: ConnectApi(
            m.ConnectGroupHeartbeatRequest, m.ConnectGroupHeartbeatResponse
        ),
        ConnectApiKey.CONNECT_GROUP_PREPARE_ASSIGNMENT: ConnectApi(
            m.ConnectGroupPrepareAssignmentRequest, m.ConnectGroupPrepareAssignmentResponse
        ),
        ConnectApiKey.CONNECT_GROUP_INSTALL_ASSIGNMENT: ConnectApi(
            m.ConnectGroupInstallAssignmentRequest, m.ConnectGroupInstallAssignmentResponse
        ),
    }
)
