"""Settings in librdkafka's names, as librdkafka and as a Java client take them."""

from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from pipeline import kafka_settings
from pipeline.errors import PipelineError
from pipeline.kafka_settings import for_java, for_librdkafka, joined, refuse_secrets, with_files

SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "me"}


def test_a_login_is_a_line_of_jaas_whatever_the_password_has() -> None:
    assert for_java(SCRAM | {"sasl.password": 'a"b\\c;'}) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="a\\"b\\\\c;";',
    }


def test_a_line_end_does_not_end_the_string_of_jaas() -> None:
    jaas = for_java(SCRAM | {"sasl.password": "a\nb\rc"})["sasl.jaas.config"]
    assert jaas.endswith('password="a\\nb\\rc";')


def test_certificates_are_handed_over_as_text(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("client")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    files = {
        "ca.crt": authority.cert_pem.bytes(),
        "tls.crt": b"".join(one.bytes() for one in issued.cert_chain_pems),
        "tls.key": key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    java = for_java(
        {
            "ssl.ca.location": f"{tmp_path}/ca.crt",
            "ssl.certificate.location": f"{tmp_path}/tls.crt",
            "ssl.key.location": f"{tmp_path}/tls.key",
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    assert java == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": files["ca.crt"].decode(),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": files["tls.crt"].decode(),
        "ssl.keystore.key": files["tls.key"].decode(),
        "ssl.endpoint.identification.algorithm": "",
    }


def test_what_is_in_javas_names_stays() -> None:
    settings = {"sasl.mechanism": "GSSAPI", "sasl.jaas.config": "…", "ssl.truststore.location": "/a"}
    assert for_java(settings) == settings


def test_a_password_comes_from_a_file_without_its_newline(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret \n")
    found = with_files(SCRAM, {"sasl.password": str(tmp_path / "password")})
    assert found == SCRAM | {"sasl.password": "secret "}
    assert for_librdkafka(found) == found


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sasl.username": "me"}, "sasl.username and sasl.password are given together"),
        ({"sasl.username": "me", "sasl.password": "x"}, "sasl.username needs a sasl.mechanisms of PLAIN"),
        (
            {"sasl.username": "me", "sasl.password": "x", "sasl.mechanisms": "OAUTHBEARER"},
            "sasl.username needs a sasl.mechanisms of PLAIN",
        ),
        ({"ssl.ca.location": "/nowhere/ca.crt"}, r"/nowhere/ca.crt can't be read"),
        ({"enable.ssl.certificate.verification": "false"}, "is a setting of librdkafka that Java clients"),
        ({"ssl.key.location": "/a"}, "ssl.certificate.location and ssl.key.location are given together"),
    ],
)
def test_what_java_could_not_use_is_refused(settings: dict[str, str], why: str) -> None:
    with pytest.raises(PipelineError, match=why):
        for_java(settings)


def test_a_key_that_java_does_not_read_is_named_with_a_way_out(tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("client")
    (tmp_path / "tls.key").write_bytes(issued.private_key_pem.bytes())
    (tmp_path / "tls.crt").write_bytes(issued.cert_chain_pems[0].bytes())
    settings = {
        "ssl.certificate.location": f"{tmp_path}/tls.crt",
        "ssl.key.location": f"{tmp_path}/tls.key",
    }
    with pytest.raises(PipelineError, match=r"tls.key is no PKCS #8, .* openssl pkcs8 -topk8 -nocrypt"):
        for_java(settings)


def test_a_setting_is_given_once(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"sasl.username is given twice"):
        with_files(SCRAM, {"sasl.username": str(tmp_path)})


def test_beside_a_section_only_what_does_not_say_how_to_connect_is_given() -> None:
    assert joined(SCRAM, {"socket.timeout.ms": "1"}) == SCRAM | {"socket.timeout.ms": "1"}
    for key in ("security.protocol", "sasl.mechanism", "sasl.jaas.config", "ssl.ca.location"):
        with pytest.raises(PipelineError, match=f"{key} is not given beside --kafka"):
            joined(SCRAM, {key: "hunter2"})


def test_a_secret_is_refused_on_the_command_line() -> None:
    refuse_secrets({"sasl.username": "me", "ssl.ca.location": "/ca"})
    for key in ("sasl.password", "sasl.jaas.config", "ssl.key.password", "ssl.keystore.key"):
        with pytest.raises(PipelineError, match=f"{key} is secret, and a command line is not") as refused:
            refuse_secrets({key: "hunter2"})
        assert "hunter2" not in str(refused.value)


def test_settings_of_java_are_refused_for_librdkafka() -> None:
    with pytest.raises(
        PipelineError, match=r"sasl.jaas.config is a setting of Java clients: use sasl.username"
    ):
        for_librdkafka({"sasl.jaas.config": "…"})


def test_no_message_has_a_password() -> None:
    with pytest.raises(PipelineError) as refused:
        for_java({"sasl.username": "me", "sasl.password": "hunter2"})
    assert "hunter2" not in str(refused.value)
    assert kafka_settings.of_connector({"fetch.max.bytes": "1"}) == {"kafka.fetch.max.bytes": "1"}
