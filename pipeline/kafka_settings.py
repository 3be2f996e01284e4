"""Settings of Kafka clients. They are given once, in librdkafka's names, and serve librdkafka and Spark's connector.

The connector is a Java client with names of its own. Certificates are handed to it as text, so that executors, which
connect too, need no files.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.text_file import read_text

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_JAVA_ONLY = ("sasl.jaas.config", "ssl.truststore.", "ssl.keystore.")
_SECRET = frozenset(
    {
        "sasl.jaas.config",
        "sasl.oauthbearer.client.secret",
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "ssl.truststore.password",
    }
)
_NOT_IN_JAVA = (
    "enable.ssl.certificate.verification",
    "ssl.ca.certificate.stores",
    "ssl.engine.",
    "ssl.providers",
)
"""Settings of librdkafka by which it trusts or signs otherwise. A Java client would ignore them without a word."""
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})
"""Of a string in a JAAS configuration, which Kafka reads by Java's StreamTokenizer: a line end would end the string."""
_OF_SECTION = ("security.protocol", "sasl.", "ssl.", "enable.ssl.")
_CERTIFICATE, _KEY = "ssl.certificate.location", "ssl.key.location"
_PEM_OF = {"ssl.ca.location": "ssl.ca.pem", _CERTIFICATE: "ssl.certificate.pem", _KEY: "ssl.key.pem"}


def refuse_secrets(keys: Iterable[str]) -> None:
    """Raise PipelineError if one of the settings of a command line is secret: all users of a machine can read those."""
    for key in keys:
        if key in _SECRET:
            raise PipelineError(
                f"{key} is secret, and a command line is not: give --kafka, or --kafka-conf-file {key}=FILE"
            )


def joined(section: Mapping[str, str], others: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a section and others. Raises PipelineError if those say how to connect, too."""
    for key in others:
        if key.startswith(_OF_SECTION):
            raise PipelineError(f"{key} is not given beside --kafka, whose file says how to connect")
    return {**section, **others}


def is_of_java(settings: Iterable[str]) -> bool:
    """Whether the settings are such that only a Java client takes them."""
    return any(key.startswith(_JAVA_ONLY) for key in settings)


def with_files(settings: Mapping[str, str], files: Mapping[str, str]) -> dict[str, str]:
    """Add settings whose values are the contents of files, such as passwords; a final newline is left out.

    Raises PipelineError if a file can't be read, or a setting is given twice. The message names no value.
    """
    found = dict(settings)
    for key, file in files.items():
        if key in found:
            raise PipelineError(f"{key} is given twice")
        found[key] = read_text(Path(file)).rstrip("\r\n")
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
    for key in left:
        if key.startswith(_NOT_IN_JAVA):
            raise PipelineError(
                f"{key} is a setting of librdkafka that Java clients, such as Spark's, don't have"
            )
    if (ca := _pem(left, "ssl.ca.location")) is not None:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca}
    java |= _client_certificate(left)
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
    return f'"{text.translate(_ESCAPES)}"'


def _pem(left: dict[str, str], location: str) -> str | None:
    """Take a certificate or key out of the settings: the text itself, or the content of its file."""
    text, file = left.pop(_PEM_OF[location], None), left.pop(location, None)
    return text if file is None else read_text(Path(file))


def _client_certificate(left: dict[str, str]) -> dict[str, str]:
    there = [any(name in left for name in (file, _PEM_OF[file])) for file in (_CERTIFICATE, _KEY)]
    if not any(there):
        return {}
    if not all(there):
        raise PipelineError("ssl.certificate.location and ssl.key.location are given together")
    file = left.get(_KEY)
    certificate, key = _pem(left, _CERTIFICATE) or "", _pem(left, _KEY) or ""
    if not any(f"BEGIN {kind} KEY" in key for kind in ("PRIVATE", "ENCRYPTED PRIVATE")):
        raise PipelineError(
            f"{file or 'ssl.key.pem'} is no PKCS #8, which Java wants: openssl pkcs8 -topk8 -nocrypt makes it one"
        )
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": key,
    }
