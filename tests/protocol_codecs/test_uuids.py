"""Kafka's text form of topic ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol_codecs import ZERO_UUID, Uuid, uuid_from_text, uuid_to_text


def test_the_text_form_is_url_safe_base64_without_padding():
    assert uuid_to_text(Uuid(bytes(range(16)))) == "AAECAwQFBgcICQoLDA0ODw"
    assert uuid_to_text(Uuid(b"\xff" * 16)) == "_____________________w"
    assert uuid_to_text(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"


@given(st.binary(min_size=16, max_size=16))
def test_text_is_read_back(value: bytes):
    text = uuid_to_text(Uuid(value))
    assert len(text) == 22
    assert uuid_from_text(text) == value


@pytest.mark.parametrize("text", ["", "A", "A" * 21, "A" * 25, "é" * 22, "A" * 21 + "+"])
def test_anything_else_is_refused(text: str):
    with pytest.raises(ValueError, match="not a Kafka uuid"):
        uuid_from_text(text)
