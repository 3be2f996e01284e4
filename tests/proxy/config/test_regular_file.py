"""Files that an operator names: whatever a path leads to, it is read in bounded time and memory, or refused."""

import errno
import os
from pathlib import Path

import pytest

from proxy.config.loader import ConfigError, load_config, load_policy
from proxy.config.regular_file import MAX_BYTES, read_regular_file
from proxy.config.tls import ListenerTls
from proxy.transport.tls_context import listener_material
from proxy.transport.tls_errors import TlsFilesError
from tests.proxy.fakes.certificates import Authority


def device(folder: Path) -> Path:
    path = folder / "device"
    path.symlink_to("/dev/zero")
    return path


def fifo(folder: Path) -> Path:
    path = folder / "fifo"
    os.mkfifo(path)
    return path


def huge(folder: Path) -> Path:
    path = folder / "huge"
    path.touch()
    os.truncate(path, 2**30)
    return path


WRONG = pytest.mark.parametrize(
    ("make", "said"),
    [
        (device, "not a regular file"),
        (fifo, "not a regular file"),
        (lambda folder: folder, "directory|not a regular file"),
        (huge, "larger than"),
    ],
    ids=["device", "fifo", "folder", "huge"],
)


@WRONG
def test_what_is_no_file_is_refused(tmp_path, make, said):
    with pytest.raises(OSError, match=said):
        read_regular_file(make(tmp_path))


@WRONG
@pytest.mark.parametrize("load", [load_policy, load_config])
def test_policy_and_configuration_are_files_or_refused(tmp_path, make, said, load):
    path = make(tmp_path)
    with pytest.raises(ConfigError, match=f"{path}: can't be read: .*({said})"):
        load(path)


@WRONG
@pytest.mark.parametrize("key", ["certificate", "key", "client_ca", "key_password_file"])
def test_tls_files_are_files_or_refused(tmp_path, make, said, key):
    certificate, private = Authority(tmp_path / "ca").issue("good")
    named = {"certificate": str(certificate), "key": str(private)}
    if key == "client_ca":
        named["client_auth"] = "required"
    path = make(tmp_path)
    with pytest.raises(TlsFilesError, match=f"{path}: can't be read: .*({said})"):
        listener_material(ListenerTls(**{**named, key: str(path)}))


def test_the_largest_file_and_a_link_to_it_are_read(tmp_path):
    (tmp_path / "file").write_bytes(bytes(MAX_BYTES))
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_regular_file(tmp_path / "link") == bytes(MAX_BYTES)
    with pytest.raises(OSError, match="larger") as caught:
        read_regular_file(tmp_path / "link", MAX_BYTES - 1)
    assert caught.value.errno == errno.EFBIG


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LAUGHS, r"policy\.yaml:2:8: .*alias \*a: aliases are not supported"),
        ("rules: &r\n- *r\n", r"policy\.yaml:2:3: .*alias \*r"),
        ("default: observe\nrules: " + "[" * 33 + "]" * 33, r"policy\.yaml:2:\d+: .*too deeply nested"),
        ("rules: " + "[" * 500_000, r"policy\.yaml:1:\d+: .*too deeply nested"),
        ("default: " + "1:" * 200_000 + "1", r"policy\.yaml:1:10: default: a value of 400001 characters"),
    ],
    ids=["laughs", "itself", "deep", "very deep", "a number"],
)
def test_yaml_that_would_cost_more_than_its_size_is_refused_with_its_place(tmp_path, text, said):
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_policy(file)


def test_an_anchor_that_nobody_refers_to_does_no_harm(tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text("rules: &rules\n- {group: g, mode: translate}\n")
    assert load_policy(file).rules[0].group == "g"
