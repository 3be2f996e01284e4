import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.frame_splitter import REQUEST_HEAD, STREAM_ABOVE, FrameError, FrameSplitter, Piece

LIMIT = 10 * 1024 * 1024


def frame(size: int, fill: bytes = b"x") -> bytes:
    return struct.pack(">i", size) + fill * size


def pieces(splitter: FrameSplitter) -> list[Piece]:
    found = []
    while (piece := splitter.next_piece()) is not None:
        found.append(piece)
    return found


def test_a_frame_that_comes_alone_is_given_out_whole():
    splitter = FrameSplitter(LIMIT)
    splitter.feed(frame(10))
    assert pieces(splitter) == [Piece(frame(10), first=True, last=True, frame_size=14)]


def test_several_frames_of_one_read_come_one_by_one():
    splitter = FrameSplitter(LIMIT)
    splitter.feed(frame(10) + frame(0) + frame(3)[:5])
    assert [piece.data for piece in pieces(splitter)] == [frame(10), frame(0)]
    assert splitter.in_frame
    splitter.feed(frame(3)[5:])
    assert [piece.data for piece in pieces(splitter)] == [frame(3)]
    assert not splitter.in_frame


def test_a_large_frame_comes_in_pieces_and_is_never_held():
    splitter = FrameSplitter(LIMIT)
    whole = frame(3 * STREAM_ABOVE)
    given_out = b""
    for start in range(0, len(whole), 10_000):
        splitter.feed(whole[start : start + 10_000])
        for piece in pieces(splitter):
            assert piece.frame_size == len(whole)
            assert piece.first == (given_out == b"")
            given_out += piece.data
            assert piece.last == (given_out == whole)
        assert splitter.buffered <= STREAM_ABOVE + 10_000
    assert given_out == whole


def test_the_first_piece_of_a_large_frame_is_enough_for_any_header():
    splitter = FrameSplitter(LIMIT)
    splitter.feed(frame(LIMIT)[:STREAM_ABOVE])
    (piece,) = pieces(splitter)
    assert len(piece.data) >= 2 * 32767 + 100


@given(st.lists(st.integers(0, 300), max_size=20), st.data())
def test_frames_do_not_depend_on_how_they_are_cut(sizes, data):
    whole = b"".join(frame(size, bytes([n])) for n, size in enumerate(sizes))
    splitter = FrameSplitter(LIMIT)
    found = []
    position = 0
    while position < len(whole):
        step = data.draw(st.integers(1, 700))
        splitter.feed(whole[position : position + step])
        position += step
        found += [piece.data for piece in pieces(splitter)]
    assert found == [frame(size, bytes([n])) for n, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (b"\xff\xff\xff\xfe", "negative_size", "negative size -2"),
        (struct.pack(">i", LIMIT + 1), "oversized", f"{LIMIT + 1} bytes, more than the {LIMIT}"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "tls", "TLS ClientHello"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "tls", "TLS alert"),
        (b"GET / HTTP/1.1\r\n", "http", "HTTP"),
        (b"HTTP/1.1 400 Bad", "http", "HTTP"),
        (b"PROXY TCP4 192.0.2.7 ", "proxy_header", "a PROXY header from an address"),
        (b"\r\n\r\n\0\r\nQUIT\n", "proxy_header", "a PROXY header from an address"),
    ],
)
def test_what_is_no_frame_is_named(data, kind, said):
    splitter = FrameSplitter(LIMIT)
    splitter.feed(data)
    with pytest.raises(FrameError, match=said) as caught:
        splitter.next_piece()
    assert caught.value.kind == kind


def test_tls_is_recognised_even_where_its_size_would_be_allowed():
    splitter = FrameSplitter(2**31 - 1)
    splitter.feed(b"\x16\x03\x01\x02\x00")
    with pytest.raises(FrameError, match="TLS"):
        splitter.next_piece()


def test_a_later_frame_may_have_a_size_that_looks_like_another_protocol():
    splitter = FrameSplitter(2**31 - 1)
    splitter.feed(frame(1) + b"\x16\x03\x01\x02")
    assert len(pieces(splitter)) == 1


def test_the_limit_can_be_raised_while_running():
    splitter = FrameSplitter(8)
    splitter.feed(frame(8) + frame(9))
    assert splitter.next_piece() is not None
    splitter.max_size = 9
    assert splitter.next_piece() is not None


def test_a_large_frame_begins_as_soon_as_there_is_enough_of_it():
    seen: list[bytes] = []

    def enough(beginning: bytes) -> bool:
        seen.append(beginning)
        return len(beginning) >= 20

    splitter = FrameSplitter(2**31 - 1, enough=enough)
    frame = (STREAM_ABOVE + 100).to_bytes(4, "big") + bytes(range(100))
    splitter.feed(frame[:19])
    assert splitter.next_piece() is None
    splitter.feed(frame[19:30])
    piece = splitter.next_piece()
    assert piece is not None
    assert (piece.data, piece.first, piece.last) == (frame[:30], True, False)
    assert seen == [frame[:19], frame[:30]]


def test_no_more_than_a_kibibyte_is_looked_at_again_and_again():
    longest = 0

    def never(beginning: bytes) -> bool:
        nonlocal longest
        longest = max(longest, len(beginning))
        return False

    splitter = FrameSplitter(2**31 - 1, enough=never)
    splitter.feed((STREAM_ABOVE + 100).to_bytes(4, "big") + bytes(REQUEST_HEAD - 5))
    assert splitter.next_piece() is None
    splitter.feed(b"!")
    assert splitter.next_piece() is not None
    assert longest == 1024
