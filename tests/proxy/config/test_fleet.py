"""The section about the member log: its properties, and where their secrets come from."""

import ctypes
import re
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

import confluent_kafka
import msgspec
import pytest

from proxy.config.fleet import Fleet, UnreadableSecret, kafka_properties, mac_key, with_absolute_secrets
from proxy.config.kafka_properties import KEPT, RESERVED, why_refused
from proxy.config.loader import ConfigError, load_config

BASE = """
upstream: {bootstrap: ["kafka:9092"]}
listeners: [{advertised_host: localhost, nodes: {"0": 9100}}]
"""


AUTO = "fleet: {kafka: {bootstrap.servers: k}, expires: auto"


def load(folder, text, environment=None):
    file = folder / "epochgate.yaml"
    file.write_text(BASE + text)
    return load_config(file, environment or {})


def test_without_the_section_there_is_no_member_log(tmp_path):
    assert load(tmp_path, "").fleet is None


def test_what_is_left_out_has_defaults(tmp_path):
    fleet = load(tmp_path, "fleet: {kafka: {bootstrap.servers: 'kafka:9092'}}").fleet
    assert (fleet.topic, fleet.partitions, fleet.replication) == ("__epochgate_members", 16, 3)
    assert fleet.expires is False
    assert fleet.record_format == 1
    assert kafka_properties(fleet, {}) == {"bootstrap.servers": "kafka:9092"}


def test_secrets_come_from_files_beside_the_configuration_and_from_the_environment(tmp_path):
    (tmp_path / "password").write_text("s3cret \n")
    fleet = load(
        tmp_path,
        "fleet: {kafka: {bootstrap.servers: k, enable.ssl.certificate.verification: true}, "
        "kafka_files: {sasl.password: password}, kafka_environment: {sasl.username: FLEET_USER}}",
    ).fleet
    properties = kafka_properties(fleet, {"FLEET_USER": "epochgate"})
    assert properties["sasl.password"] == "s3cret "
    assert properties["sasl.username"] == "epochgate"
    assert properties["enable.ssl.certificate.verification"] is True


def test_the_environment_overrides_what_is_one_value(tmp_path):
    config = load(tmp_path, "fleet: {kafka: {bootstrap.servers: k}}", {"EPOCHGATE_FLEET__EXPIRES": "true"})
    assert config.fleet.expires is True


def test_a_pod_gives_its_own_address_by_the_environment(tmp_path):
    names = "{every: all.kafka.svc, writing: log.kafka.svc}"
    text = f"fleet: {{kafka: {{bootstrap.servers: k}}, expires: auto, replica_names: {names}}}"
    config = load(tmp_path, text, {"EPOCHGATE_FLEET__REPLICA_NAMES__OWN_ADDRESS": "10.0.0.7"})
    assert config.fleet.expires == "auto"
    assert config.fleet.replica_names.own_address == "10.0.0.7"
    assert load(tmp_path, text).fleet.replica_names.own_address is None, "a Job beside them has none"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fleet: {}", "kafka"),
        ("fleet: {kafka: {}}", "`bootstrap.servers` is missing"),
        ("fleet: {kafka: {bootstrap.servers: k, group.id: g}}", "'group.id' is set by the member log itself"),
        (
            "fleet: {kafka: {bootstrap.servers: k, ssl.key.pem: a}, kafka_files: {ssl.key.pem: b}}",
            "given twice",
        ),
        ("fleet: {kafka: {bootstrap.servers: k}, topic: 'a b'}", "topic"),
        ("fleet: {kafka: {bootstrap.servers: k}, record_format: 2}", "this release knows 1, not 2"),
        ("fleet: {kafka: {bootstrap.servers: k}, partitions: 0}", "partitions"),
        ("fleet: {kafka: {bootstrap.servers: k}, replicas: 3}", "unknown key"),
        ("fleet: {kafka: {bootstrap.servers: [k]}}", "fleet.kafka"),
        ("fleet: {kafka: {bootstrap.servers: k}, expires: maybe}", "fleet.expires"),
        (f"{AUTO}}}", "`fleet.replica_names` need each other"),
        (
            "fleet: {kafka: {bootstrap.servers: k}, expires: true, replica_names: {every: a, writing: b}}",
            "`fleet.replica_names` need each other",
        ),
        (
            f"{AUTO}, replica_names: {{own_address: c, every: a, writing: b}}}}",
            "is no IP address",
        ),
    ],
)
def test_a_mistake_is_refused(tmp_path, text, said):
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text)
    assert said in str(error.value)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_nobody_can_weaken_the_log(name):
    with pytest.raises(msgspec.ValidationError, match="itself"):
        msgspec.convert({"kafka": {"bootstrap.servers": "k", name: "x"}}, Fleet)


def properties_of_librdkafka():
    """The names of all properties that the installed librdkafka has."""
    (library,) = Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*.so*")
    librdkafka, libc = ctypes.CDLL(str(library)), ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    with NamedTemporaryFile() as file:
        stream = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
        librdkafka.rd_kafka_conf_properties_show(stream)
        libc.fclose(stream)
        text = Path(file.name).read_text()
    names = [line.partition("|")[0].strip() for line in text.splitlines() if "|" in line]
    return {name for name in names if name and name != "Property" and not set(name) <= {"-"}}


DECIDED = 193
"""Properties of librdkafka 2.16 of which somebody has decided whether they may be set."""


def test_each_property_of_librdkafka_is_kept_or_refused_by_name():
    names = properties_of_librdkafka()
    assert len(names) == DECIDED, "of those that are new somebody has to decide"
    assert names >= KEPT | RESERVED
    assert not KEPT & RESERVED
    for name in names:
        made = {"kafka": {"bootstrap.servers": "k"} | {name: "x"}}
        if name in KEPT:
            assert why_refused(name) is None
            assert msgspec.convert(made, Fleet).kafka[name] == "x"
        else:
            with pytest.raises(msgspec.ValidationError, match=re.escape(f"{name!r} is ")):
                msgspec.convert(made, Fleet)


@pytest.mark.parametrize(
    "name",
    ["plugin.library.paths", "stats_cb", "default.topic.config", "error_cb", "oauth_cb", "logger",
     "ssl.engine.location", "group.protocol", "group.instance.id", "topic.blacklist", "message.max.bytes",
     "sasl.pasword", ""],
)  # fmt: skip
def test_what_would_load_a_library_or_is_a_function_or_unknown_is_refused(name):
    for where in ("kafka", "kafka_files", "kafka_environment"):
        given = {"kafka": {"bootstrap.servers": "k"}}
        given[where] = given.get(where, {}) | {name: "x"}
        with pytest.raises(msgspec.ValidationError, match=re.escape(f"{name!r} is none of the properties")):
            msgspec.convert(given, Fleet)


@pytest.mark.parametrize("value", [True, 1, 1.5, "x"])
def test_a_value_of_another_type_ends_in_an_exception_that_names_it(value):
    """Those that the processes of a Kafka client answer with a refusal."""
    for name in KEPT - {"bootstrap.servers", "metadata.broker.list"}:
        with suppress(confluent_kafka.KafkaException, AttributeError, TypeError, ValueError):
            confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, name: value})


def test_a_secret_that_is_not_there_is_named_without_its_value(tmp_path):
    missing = Fleet(kafka={"bootstrap.servers": "k"}, kafka_files={"sasl.password": str(tmp_path / "none")})
    with pytest.raises(UnreadableSecret, match=r"fleet\.kafka_files\.sasl\.password"):
        kafka_properties(missing, {})
    unset = Fleet(kafka={"bootstrap.servers": "k"}, kafka_environment={"sasl.password": "NOBODY_SET_IT"})
    with pytest.raises(UnreadableSecret, match="NOBODY_SET_IT"):
        kafka_properties(unset, {})


def test_the_key_for_records_of_moves_is_read_and_never_shown(tmp_path):
    file = tmp_path / "key"
    fleet = Fleet(kafka={"bootstrap.servers": "k"}, mac_key_file="key")
    assert mac_key(Fleet(kafka={"bootstrap.servers": "k"})) is None
    fleet = with_absolute_secrets(fleet, tmp_path)
    with pytest.raises(UnreadableSecret, match=r"fleet\.mac_key_file"):
        mac_key(fleet)
    file.write_bytes(b"s" * 31 + b"\n")
    with pytest.raises(UnreadableSecret, match="31 bytes, fewer than 32") as refused:
        mac_key(fleet)
    assert "sss" not in str(refused.value)
    file.write_bytes(b"s" * 32 + b"\r\n")
    assert mac_key(fleet) == b"s" * 32


@pytest.mark.parametrize("value", ["2024-09-09", "2024-99-99", "!!int hunter2", "{hunter2: 1}"])
def test_no_message_shows_a_property_that_is_no_text(tmp_path: Path, value: str):
    """A password without quotes may be a date in YAML; the log has the messages of a file that is read again."""
    file = tmp_path / "epochgate.yaml"
    file.write_text(f"fleet: {{kafka: {{bootstrap.servers: 'a:1', sasl.password: {value}}}}}\n")
    with pytest.raises(ConfigError, match=r"fleet\.kafka\.sasl\.password: ") as caught:
        load_config(file)
    assert not {"hunter2", "2024", "09"} & set(
        re.findall(r"[a-z0-9]+", str(caught.value).replace(str(file), ""))
    )
