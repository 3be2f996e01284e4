"""PROXY headers as load balancers send them."""

import socket
import struct

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
LOCAL = SIGNATURE + b"\x20\0\0\0"
UNKNOWN = b"PROXY UNKNOWN\r\n"


def line(host: str) -> bytes:
    """Version 1 for a client of this IPv4 address."""
    return f"PROXY TCP4 {host} 127.0.0.1 40000 9092\r\n".encode()


def binary(host: str) -> bytes:
    """Version 2 for a client of this IPv4 address."""
    block = socket.inet_aton(host) + socket.inet_aton("127.0.0.1") + struct.pack(">HH", 40_000, 9092)
    return SIGNATURE + struct.pack(">BBH", 0x21, 0x11, len(block)) + block
