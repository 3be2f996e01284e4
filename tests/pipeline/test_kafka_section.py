"""The `kafka:` section: what it says, and one clear line for each mistake."""

from pathlib import Path

import pytest
import trustme
import yaml
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from pipeline.errors import PipelineError
from pipeline.kafka_section import load
from pipeline.kafka_settings import for_java, for_librdkafka

LOGIN = {
    "protocol": "SASL_SSL",
    "mechanism": "SCRAM-SHA-512",
    "user": "me",
    "password_environment": "PASSWORD",
}
ENVIRONMENT = {"PASSWORD": "hunter2", "EMPTY": ""}
AUTHORITY = trustme.CA()
ISSUED = AUTHORITY.issue_cert("client")
CHAIN = b"".join(one.bytes() for one in ISSUED.cert_chain_pems)
KEY = ISSUED.private_key_pem.bytes()


def settings_of(folder: Path, section: object) -> dict[str, str]:
    for name, content in {
        "ca.crt": AUTHORITY.cert_pem.bytes(),
        "tls.crt": CHAIN,
        "tls.key": KEY,
        "encrypted.key": load_pem_private_key(KEY, None).private_bytes(
            Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"hunter2")
        ),
        "other.key": trustme.CA().issue_cert("other").private_key_pem.bytes(),
        "password": b"hunter2 \n",
        "two-lines": b"hunter2\nhunter2\n",
        "binary": b"\xff\xfe",
    }.items():
        (folder / name).write_bytes(content)
    (folder / "kafka.yaml").write_text(yaml.safe_dump({"kafka": section}))
    return load(folder / "kafka.yaml", ENVIRONMENT)


def test_a_login_over_tls_serves_both_libraries(tmp_path: Path) -> None:
    login = {**LOGIN, "password_file": "password", "ca_file": "ca.crt"}
    del login["password_environment"]
    settings = settings_of(tmp_path, login)
    assert for_librdkafka(settings) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": "hunter2 ",
        "ssl.ca.pem": AUTHORITY.cert_pem.bytes().decode(),
    }
    assert for_java(settings) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="hunter2 ";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": AUTHORITY.cert_pem.bytes().decode(),
    }


@pytest.mark.parametrize(
    "key", [{"key_file": "tls.key"}, {"key_file": "encrypted.key", "key_password_environment": "PASSWORD"}]
)
def test_a_key_of_any_form_is_handed_over_as_java_wants_it(tmp_path: Path, key: dict[str, str]) -> None:
    section = {
        "protocol": "SSL",
        "ca": AUTHORITY.cert_pem.bytes().decode(),
        "certificate_file": "tls.crt",
        **key,
    }
    java = for_java(settings_of(tmp_path, section))
    assert java["ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")
    handed_over, given = (load_pem_private_key(one, None) for one in (java["ssl.keystore.key"].encode(), KEY))
    assert handed_over.public_key() == given.public_key()
    assert java["ssl.keystore.certificate.chain"] == CHAIN.decode()


def test_the_host_name_of_a_broker_may_be_left_unchecked(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, {"protocol": "SSL", "verify_host_name": False})
    assert settings == {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"}
    assert for_java(settings)["ssl.endpoint.identification.algorithm"] == ""


def test_json_is_read_as_well(tmp_path: Path) -> None:
    (tmp_path / "kafka.json").write_text('{"kafka": {"protocol": "PLAINTEXT"}}')
    assert load(tmp_path / "kafka.json") == {"security.protocol": "PLAINTEXT"}


TLS = {"protocol": "SSL"}


@pytest.mark.parametrize(
    ("section", "why"),
    [
        ({}, "Object missing required field `protocol` - at `kafka`"),
        ([], "Expected `object`, got `array` - at `kafka`"),
        ({"protocol": "SASL"}, "Invalid enum value 'SASL' - at `kafka.protocol`"),
        ({**TLS, "ca_fil": "x"}, "unknown field `ca_fil` - at `kafka`"),
        ({**LOGIN, "password": "hunter2"}, "kafka.password is secret and not given here: password_file or"),
        ({**TLS, "key": KEY.decode()}, "kafka.key is secret and not given here: key_file or key_environment"),
        ({**LOGIN, "mechanism": None}, "kafka.mechanism is missing: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
        ({**LOGIN, "user": None}, "kafka.user is missing: user_file or user_environment says where it is"),
        ({**LOGIN, "password_environment": None}, "kafka.password is missing: password_file or"),
        (
            {**LOGIN, "password_environment": "NOT_SET"},
            "password_environment names the variable NOT_SET, which is",
        ),
        ({**LOGIN, "password_environment": "EMPTY"}, "kafka.password_environment has no value"),
        (
            {**LOGIN, "password_file": "password"},
            "password_file and password_environment are given, of which one",
        ),
        (
            {**LOGIN, "password_environment": None, "password_file": "two-lines"},
            "password_file has more than one line",
        ),
        ({**LOGIN, "user": None, "user_file": "gone"}, "kafka.user_file: .*gone can't be read: No such file"),
        ({**LOGIN, "user": None, "user_file": "."}, "kafka.user_file: .* can't be read: Is a directory"),
        ({**LOGIN, "user": None, "user_file": "binary"}, "kafka.user_file: .*binary is no text"),
        (
            {**LOGIN, "protocol": "SSL"},
            "kafka.mechanism needs the protocol SASL_SSL or SASL_PLAINTEXT, not SSL",
        ),
        (
            {"protocol": "PLAINTEXT", "ca_file": "ca.crt"},
            "kafka.ca_file needs the protocol SSL or SASL_SSL, not PLAIN",
        ),
        (
            {"protocol": "PLAINTEXT", "verify_host_name": False},
            "kafka.verify_host_name needs the protocol SSL",
        ),
        ({**TLS, "ca_file": "tls.key"}, "kafka.ca_file has no certificate in PEM"),
        ({**TLS, "ca": "nonsense"}, "kafka.ca has no certificate in PEM"),
        ({**TLS, "ca": "x", "ca_file": "y"}, "kafka.ca and ca_file are given"),
        ({**TLS, "certificate_file": "tls.crt"}, "kafka.certificate and key are given together"),
        ({**TLS, "key_file": "tls.key"}, "kafka.certificate and key are given together"),
        (
            {**TLS, "key_password_environment": "PASSWORD"},
            "kafka.key_password is of a key, and there is none",
        ),
        ({**TLS, "certificate_file": "tls.crt", "key_file": "tls.crt"}, "kafka.key_file is no key in PEM"),
        (
            {**TLS, "certificate_file": "tls.crt", "key_file": "other.key"},
            "kafka.key_file is not the key of the cert",
        ),
        (
            {**TLS, "certificate_file": "tls.crt", "key_file": "encrypted.key"},
            "kafka.key_file has a password: key_p",
        ),
        (
            {
                **TLS,
                "certificate_file": "tls.crt",
                "key_file": "encrypted.key",
                "key_password_file": "ca.crt",
            },
            "kafka.key_password_file has more than one line",
        ),
        (
            {
                **TLS,
                "certificate_file": "tls.crt",
                "key_file": "encrypted.key",
                "key_password_file": "password",
            },
            "kafka.key_file is no key in PEM, or its password is another",
        ),
        (
            {
                **TLS,
                "certificate_file": "tls.crt",
                "key_file": "tls.key",
                "key_password_environment": "PASSWORD",
            },
            "kafka.key_file has no password, but one is given",
        ),
    ],
)
def test_a_mistake_is_one_line_without_a_secret(tmp_path: Path, section: object, why: str) -> None:
    with pytest.raises(PipelineError, match=why) as refused:
        settings_of(tmp_path, section)
    said = str(refused.value)
    assert said.startswith(f"{tmp_path}/kafka.yaml: ")
    assert "\n" not in said
    assert "hunter2" not in said
    assert "BEGIN" not in said


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no section `kafka:`"),
        ("brokers: {}", "has no section `kafka:`"),
        ("kafka: {protocol: SSL}\nhunter2: x", "hunter2 is unknown: the file has one section"),
        ("kafka: {protocol: SSL, protocol: PLAINTEXT}", "line 1: protocol is given twice"),
        ("kafka:\n  password_file: [hunter2\n", "line 3: expected"),
        ("kafka: !!python/object:os.system {}", "line 1: could not determine a constructor"),
        ("kafka: {? [a] : b}", "Expected `str`|line 1"),
        ("[" * 5000, "is no YAML"),
    ],
)
def test_a_file_of_another_form_is_one_line_too(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "kafka.yaml").write_text(text)
    with pytest.raises(PipelineError, match=why) as refused:
        load(tmp_path / "kafka.yaml")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"kafka.yaml can't be read: No such file or directory"):
        load(tmp_path / "kafka.yaml")


def test_a_file_of_any_size_is_not_read() -> None:
    with pytest.raises(PipelineError, match="/dev/zero is larger than 4 MiB"):
        load(Path("/dev/zero"))
