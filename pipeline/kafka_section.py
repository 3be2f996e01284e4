"""The `kafka:` section of a file: how all clients of the pipeline connect, whichever library they are of.

What is secret does not stand in the file: it names other files or environment variables. Certificates and keys are PEM,
and are read and checked here, so that neither library is given what it would refuse in words of its own.
"""

import os
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509 import Certificate, load_pem_x509_certificates

from pipeline.errors import PipelineError
from pipeline.text_file import read_text

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]

_NO_BREAKS = ("\n", "\r", "\0")


class KafkaSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How to connect. Files are relative to the folder of the file with this section."""

    protocol: Protocol
    """Kafka's `security.protocol`."""
    mechanism: Mechanism | None = None
    """Kafka's `sasl.mechanism`."""
    user: str | None = None
    user_file: str | None = None
    user_environment: str | None = None
    password_file: str | None = None
    password_environment: str | None = None
    ca: str | None = None
    """Certificates of the authorities that sign the brokers', as PEM. Without: those that the system trusts."""
    ca_file: str | None = None
    certificate: str | None = None
    """The client's own certificate and those that lead to its authority, as PEM."""
    certificate_file: str | None = None
    key_file: str | None = None
    """The key of the client's certificate, as PEM: PKCS #8, PKCS #1 or SEC 1."""
    key_environment: str | None = None
    key_password_file: str | None = None
    key_password_environment: str | None = None
    verify_host_name: bool = True
    """Whether a broker's certificate must name the host that was connected to."""


def load(file: Path, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings of a file's section in librdkafka's names, certificates as text.

    Raises PipelineError, of one line that names the file and the key and has no secret.
    """
    section = _parsed(file, read_text(file))
    return _Values(file, section, environment).settings()


class _Loader(yaml.SafeLoader):
    """Refuses keys that are given twice, of which PyYAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _parsed(file: Path, text: str) -> KafkaSection:
    try:
        content = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:  # its own text would show the lines of the file
        at = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise PipelineError(f"{file}{at}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PipelineError(f"{file} is no YAML ({type(error).__name__})") from None
    if not isinstance(content, dict) or "kafka" not in content:
        raise PipelineError(f"{file} has no section `kafka:`")
    if others := sorted(str(name) for name in content if name != "kafka"):
        raise PipelineError(f"{file}: {others[0]} is unknown: the file has one section, `kafka:`")
    _refuse_secrets(file, content["kafka"])
    try:
        return msgspec.convert(content["kafka"], KafkaSection)
    except msgspec.ValidationError as error:
        said, _, at = str(error).partition(" - at `$")
        raise PipelineError(f"{file}: {said} - at `kafka{at or '`'}") from None


def _refuse_secrets(file: Path, section: object) -> None:
    """Refuse secrets with what to write instead."""
    for name in ("password", "key", "key_password"):
        if isinstance(section, dict) and name in section:
            raise PipelineError(
                f"{file}: kafka.{name} is secret and not given here: {name}_file or {name}_environment says where it is"
            )


class _Values:
    """The values of a section, from where it says they are."""

    def __init__(self, file: Path, section: KafkaSection, environment: Mapping[str, str]) -> None:
        self._file = file
        self._section = section
        self._environment = environment

    def settings(self) -> dict[str, str]:
        """Return the settings in librdkafka's names. Raises PipelineError."""
        protocol = self._section.protocol
        found: dict[str, str] = {"security.protocol": protocol}
        found |= self._login() if protocol.startswith("SASL_") else self._without("SASL_", _OF_LOGIN)
        found |= self._tls() if protocol.endswith("SSL") else self._without("SSL", _OF_TLS)
        return found

    def _without(self, kind: str, names: tuple[str, ...]) -> dict[str, str]:
        for name in names:
            if getattr(self._section, name) is not None:
                wanted = "SASL_SSL or SASL_PLAINTEXT" if kind == "SASL_" else "SSL or SASL_SSL"
                raise self._wrong(name, f"needs the protocol {wanted}, not {self._section.protocol}")
        if kind == "SSL" and not self._section.verify_host_name:
            raise self._wrong(
                "verify_host_name", f"needs the protocol SSL or SASL_SSL, not {self._section.protocol}"
            )
        return {}

    def _login(self) -> dict[str, str]:
        if self._section.mechanism is None:
            raise self._wrong("mechanism", "is missing: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
        user, password = self._line("user"), self._line("password")
        for name, value in (("user", user), ("password", password)):
            if value is None:
                raise self._wrong(name, f"is missing: {name}_file or {name}_environment says where it is")
        return {
            "sasl.mechanisms": self._section.mechanism,
            "sasl.username": user or "",
            "sasl.password": password or "",
        }

    def _tls(self) -> dict[str, str]:
        found = {}
        if (ca := self._certificates("ca")) is not None:
            found["ssl.ca.pem"] = _pem(ca)
        own, key = self._certificates("certificate"), self._text("key")
        if (own is None) != (key is None):
            raise self._wrong("certificate and key", "are given together")
        if own is not None and key is not None:
            found["ssl.certificate.pem"] = _pem(own)
            found["ssl.key.pem"] = self._private_key(key, own[0])
        elif self._line("key_password") is not None:
            raise self._wrong("key_password", "is of a key, and there is none")
        if not self._section.verify_host_name:
            found["ssl.endpoint.identification.algorithm"] = "none"
        return found

    def _certificates(self, name: str) -> list[Certificate] | None:
        text = self._text(name)
        if text is None:
            return None
        try:
            return load_pem_x509_certificates(text.encode())
        except ValueError:
            raise self._wrong(self._given(name), "has no certificate in PEM") from None

    def _private_key(self, text: str, certificate: Certificate) -> str:
        """Return the key as PKCS #8 without a password, the one form that both libraries read."""
        password = self._line("key_password")
        at = self._given("key")
        try:
            key = load_pem_private_key(text.encode(), None if password is None else password.encode())
        except TypeError:  # a password that is missing, or too much
            why = "has a password: key_password_file or key_password_environment says where it is"
            raise self._wrong(at, why if password is None else "has no password, but one is given") from None
        except (ValueError, UnsupportedAlgorithm):
            why = "is no key in PEM" if password is None else "is no key in PEM, or its password is another"
            raise self._wrong(at, why) from None
        spki = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if key.public_key().public_bytes(*spki) != certificate.public_key().public_bytes(*spki):
            raise self._wrong(at, "is not the key of the certificate")
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def _line(self, name: str) -> str | None:
        """Return a value of one line."""
        text = self._text(name)
        if text is None:
            return None
        value = text.rstrip("\r\n")
        if not value:
            raise self._wrong(self._given(name), "has no value")
        if any(one in value for one in _NO_BREAKS):
            raise self._wrong(self._given(name), "has more than one line")
        return value

    def _text(self, name: str) -> str | None:
        """Return a value that is here, in a file or in the environment; None if it is in none of them."""
        given = [
            key for key in (name, f"{name}_file", f"{name}_environment") if getattr(self._section, key, None)
        ]
        if len(given) > 1:
            raise self._wrong(" and ".join(given), "are given, of which one can count")
        if not given:
            return None
        value: str = getattr(self._section, given[0])
        if given[0].endswith("_file"):
            try:
                return read_text(self._file.parent / value)
            except PipelineError as error:
                raise PipelineError(f"{self._file}: kafka.{given[0]}: {error}") from None
        if given[0].endswith("_environment"):
            if value not in self._environment:
                raise self._wrong(given[0], f"names the variable {value}, which is not set")
            return self._environment[value]
        return value

    def _given(self, name: str) -> str:
        """Return the key by which a value is given."""
        keys = (f"{name}_file", f"{name}_environment", name)
        return next((key for key in keys if getattr(self._section, key, None)), name)

    def _wrong(self, key: str, why: str) -> PipelineError:
        return PipelineError(f"{self._file}: kafka.{key} {why}")


_OF_LOGIN = ("mechanism", "user", "user_file", "user_environment", "password_file", "password_environment")
_OF_TLS = (
    "ca",
    "ca_file",
    "certificate",
    "certificate_file",
    "key_file",
    "key_environment",
    "key_password_file",
    "key_password_environment",
)


def _pem(certificates: list[Certificate]) -> str:
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)
