"""DeleteRecords by kio's codec: ours has no such message, as nothing of ours sends it."""

import io
import socket
import struct
from collections.abc import Callable
from datetime import timedelta

from kio.schema.delete_records.v2 import request as delete
from kio.schema.delete_records.v2.response import DeleteRecordsResponse
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i32Timedelta, i64


def delete_records(bootstrap: str) -> Callable[[str, int, int], None]:
    """What has a partition's log (topic, number) begin at an offset. The cluster has one broker."""
    host, _, port = bootstrap.rpartition(":")

    def delete_before(topic: str, partition: int, offset: int) -> None:
        request = delete.DeleteRecordsRequest(
            topics=(
                delete.DeleteRecordsTopic(
                    name=topic,  # type: ignore[arg-type]  a NewType of kio
                    partitions=(
                        delete.DeleteRecordsPartition(partition_index=i32(partition), offset=i64(offset)),
                    ),
                ),
            ),
            timeout=i32Timedelta.parse(timedelta(seconds=10)),
        )
        header = request.__header_schema__(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=i32(0),
            client_id="delete-records",
        )
        frame = io.BytesIO()
        entity_writer(type(header))(frame, header)
        entity_writer(type(request))(frame, request)
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(struct.pack(">i", len(frame.getvalue())) + frame.getvalue())
            stream = connection.makefile("rb")
            answer = stream.read(struct.unpack(">i", stream.read(4))[0])
        _, header_size = entity_reader(DeleteRecordsResponse.__header_schema__)(answer, 0)
        response, _ = entity_reader(DeleteRecordsResponse)(answer, header_size)
        assert response.topics[0].partitions[0].error_code == i16(0), response

    return delete_before
