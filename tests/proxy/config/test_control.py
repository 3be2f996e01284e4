"""The sections `control` and `hook` of the configuration: what is refused, and that no message gives a secret away."""

from pathlib import Path

import pytest

from proxy.config.loader import ConfigError, load_config

BASE = """\
upstream: {bootstrap: ["kafka:9092"]}
listeners: [{advertised_host: proxy, nodes: {"0-9": 9100}}]
"""
TLS = "tls: {certificate: c.pem, key: k.pem, client_ca: ca.pem, client_auth: required}"
SECRET = "s3cr3t"  # noqa: S105  no real one


def load(tmp_path: Path, more: str):
    file = tmp_path / "epochgate.yaml"
    file.write_text(BASE + more)
    return load_config(file, {})


def test_by_default_nobody_gives_commands_and_nothing_is_asked(tmp_path: Path) -> None:
    config = load(tmp_path, "")
    assert (config.control, config.hook) == (None, None)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        "control: {socket: run/control}\nhook: {url: 'https://h/', ca: ca.pem, token_file: token}\n",
    )
    assert config.control is not None
    assert config.control.socket == str(tmp_path / "run" / "control")
    assert config.hook is not None
    assert (config.hook.ca, config.hook.token_file) == (str(tmp_path / "ca.pem"), str(tmp_path / "token"))


def test_by_tls_with_subjects(tmp_path: Path) -> None:
    control = load(tmp_path, f"control: {{bind: 0.0.0.0, {TLS}, allowed_subjects: [CN=alice]}}\n").control
    assert control is not None
    assert control.tls is not None
    assert control.tls.certificate == str(tmp_path / "c.pem")


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("{}", "exactly one of `socket` and `bind`"),
        ("{socket: s, bind: 127.0.0.1}", "exactly one of `socket` and `bind`"),
        ("{bind: 0.0.0.0}", "needs `tls` with `client_auth: required`"),
        ("{bind: 127.0.0.1}", "needs `tls` with `client_auth: required`"),
        (
            "{bind: 0.0.0.0, tls: {certificate: c, key: k}, allowed_subjects: [CN=a]}",
            "needs `tls` with `client_auth: required`",
        ),
        (
            f"{{bind: 0.0.0.0, {TLS.replace('required', 'optional')}, allowed_subjects: [CN=a]}}",
            "needs `tls` with `client_auth: required`",
        ),
        (f"{{bind: 0.0.0.0, {TLS}}}", "needs `allowed_subjects`"),
        (f"{{bind: '', {TLS}, allowed_subjects: [CN=a]}}", "control.bind: expected a host name"),
        ("{socket: s, allowed_subjects: [CN=a]}", "belong to `bind`"),
        ("{socket: s, socket_mode: '0606'}", "its last digit has to be 0"),
        ("{socket: s, socket_mode: rw}", "three octal digits"),
        (f"{{socket: {'s' * 108}}}", "more than 107 bytes"),
        (
            f"{{bind: 127.0.0.1, port: 9080, {TLS}, allowed_subjects: [CN=a]}}",
            "control.port: port 9080 on 127.0.0.1 is that of `admin.port` too",
        ),
    ],
)
def test_a_listener_that_anybody_could_speak_to_is_refused(
    tmp_path: Path, section: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"control: {section}\n")
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("{url: ''}", "hook.url"),
        ("{url: hook}", "has to begin with https:// or http://"),
        ("{url: 'ftp://h/'}", "has to begin with https:// or http://"),
        ("{url: 'file:///etc/passwd'}", "has to begin with https:// or http://"),
        (f"{{url: 'https://u:{SECRET}@h/'}}", "user name or password"),
        (f"{{url: 'https://h:port/{SECRET}'}}", "is no URL"),
        (f"{{url: 'https://h:0/{SECRET}'}}", "port 0"),
        (f"{{url: 'https://h/{SECRET}#x'}}", "fragment"),
        (f"{{url: 'https:///{SECRET}'}}", "hook.url: expected a host name"),
        (f'{{url: "https://h/{SECRET}\\r\\nX: y"}}', "characters that a URL has not"),
        (f"{{url: 'https://h/ü{SECRET}'}}", "characters that a URL has not"),
        (f"{{url: 'http://h/{SECRET}', token_file: t}}", "`hook.token_file` needs https"),
        ("{url: 'https://h/', timeout_s: 0}", "timeout_s"),
        ("{url: 'https://h/', timeout_s: 31}", "timeout_s"),
        ("{url: 'https://h/', insecure: true}", "insecure"),
    ],
)
def test_a_hook_that_can_not_be_called_safely_is_refused(tmp_path: Path, section: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"hook: {section}\n")
    assert problem in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "authority", "target"),
    [
        ("https://hook.example/a?b=c", "hook.example:443", "/a?b=c"),
        ("http://hook.example", "hook.example:80", "/"),
        ("http://[::1]:8080/x", "[::1]:8080", "/x"),
    ],
)
def test_what_a_url_means(tmp_path: Path, url: str, authority: str, target: str) -> None:
    hook = load(tmp_path, f"hook: {{url: '{url}'}}\n").hook
    assert hook is not None
    assert (hook.authority, hook.target) == (authority, target)
    assert target.strip("/") not in hook.shown or target == "/"
