"""Settings of Kafka clients. They are given once, in librdkafka's names, and serve librdkafka and Spark's connector.

The connector is a Java client with names of its own. Certificates are handed to it as text, so that executors, which
connect too, need no files.
"""

from collections.abc import Mapping
from pathlib import Path

from pipeline.errors import PipelineError

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_JAVA_ONLY = ("sasl.jaas.config", "ssl.truststore.", "ssl.keystore.")


def with_files(settings: Mapping[str, str], files: Mapping[str, str]) -> dict[str, str]:
    """Add settings whose values are the contents of files, such as passwords; a final newline is left out.

    Raises PipelineError if a file can't be read, or a setting is given twice. The message names no value.
    """
    found = dict(settings)
    for key, file in files.items():
        if key in found:
            raise PipelineError(f"{key} is given twice")
        found[key] = _text(file).rstrip("\r\n")
    return found


def for_librdkafka(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as librdkafka takes them. Raises PipelineError if they are Java's."""
    for key in settings:
        if key.startswith(_JAVA_ONLY):
            raise PipelineError(
                f"{key} is a setting of Java clients: use sasl.username, sasl.password, ssl.ca.location, "
                "ssl.certificate.location and ssl.key.location, which every command takes"
            )
    return dict(settings)


def for_java(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as Java clients take them. What is in their names already stays.

    Raises PipelineError if there is no translation, or a file can't be read. The message names no password.
    """
    left = dict(settings)
    java = {}
    if mechanism := left.pop("sasl.mechanisms", None) or left.pop("sasl.mechanism", None):
        java["sasl.mechanism"] = mechanism
    java |= _login(left.pop("sasl.username", None), left.pop("sasl.password", None), mechanism)
    if ca := left.pop("ssl.ca.location", None):
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _text(ca)}
    java |= _client_certificate(
        left.pop("ssl.certificate.location", None), left.pop("ssl.key.location", None)
    )
    if left.get("ssl.endpoint.identification.algorithm") == "none":
        left["ssl.endpoint.identification.algorithm"] = ""
    return left | java


def of_connector(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings as options of Spark's connector. Raises PipelineError as :func:`for_java`."""
    return {f"kafka.{key}": value for key, value in for_java(settings).items()}


def _login(username: str | None, password: str | None, mechanism: str | None) -> dict[str, str]:
    if username is None and password is None:
        return {}
    if username is None or password is None:
        raise PipelineError("sasl.username and sasl.password are given together")
    module = _LOGIN_MODULES.get(mechanism or "")
    if module is None:
        raise PipelineError(f"sasl.username needs a sasl.mechanisms of {', '.join(_LOGIN_MODULES)}")
    return {
        "sasl.jaas.config": f"{module} required username={_quoted(username)} password={_quoted(password)};"
    }


def _quoted(text: str) -> str:
    """Return it as a string of a JAAS configuration."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _client_certificate(certificate: str | None, key: str | None) -> dict[str, str]:
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        raise PipelineError("ssl.certificate.location and ssl.key.location are given together")
    private = _text(key)
    if not any(f"BEGIN {kind} KEY" in private for kind in ("PRIVATE", "ENCRYPTED PRIVATE")):
        raise PipelineError(
            f"{key} is no PKCS #8, which Java wants: openssl pkcs8 -topk8 -nocrypt makes it one"
        )
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": _text(certificate),
        "ssl.keystore.key": private,
    }


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{file} can't be read: {error}") from None
