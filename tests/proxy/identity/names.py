"""Distinguished names and certificates as DER, made by hand so that they may be wrong."""

OIDS = {
    "CN": "550403",
    "C": "550406",
    "L": "550407",
    "ST": "550408",
    "O": "55040a",
    "OU": "55040b",
    "STREET": "550409",
    "DC": "0992268993f22c640119",
    "UID": "0992268993f22c640101",
    "emailAddress": "2a864886f70d010901",
    "serialNumber": "550405",
}
UTF8, PRINTABLE, IA5 = 0x0C, 0x13, 0x16


def tlv(tag: int, contents: bytes) -> bytes:
    size = len(contents)
    if size < 0x80:
        return bytes([tag, size]) + contents
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + contents


def name(*parts: list[tuple[str, int, bytes]]) -> bytes:
    """A name whose parts are types, kinds of text and values."""
    return tlv(
        0x30,
        b"".join(
            tlv(
                0x31,
                b"".join(
                    tlv(0x30, tlv(6, bytes.fromhex(OIDS[kind])) + tlv(tag, value)) for kind, tag, value in one
                ),
            )
            for one in parts
        ),
    )


def certificate(subject: bytes, not_after: bytes = b"491231235959Z", tag: int = 0x17) -> bytes:
    """What is read of a certificate; the rest is not there."""
    validity = tlv(0x30, tlv(0x17, b"200101000000Z") + tlv(tag, not_after))
    fields = [tlv(0xA0, tlv(2, b"\2")), tlv(2, b"\1"), tlv(0x30, b""), tlv(0x30, b""), validity, subject]
    return tlv(0x30, tlv(0x30, b"".join(fields)))
