"""A Kerberos realm of one test: MIT's KDC on loopback, unprivileged, with its database in a folder of its own.

Debian's packages are krb5-kdc (`krb5kdc`, `kdb5_util`) and krb5-admin-server (`kadmin.local`), for kcat also krb5-user
(`kinit`) and libsasl2-modules-gssapi-mit.
"""

import contextlib
import os
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from support.clients import ClientKind
from support.waiting import eventually
from tests.skips import Need, program, without
from tools.kafka.ports import LOOPBACK, free_ports

REALM = "EPOCHGATE.TEST"
SERVICE = "kafka"
_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
_PROGRAMS = {"krb5kdc": "krb5-kdc", "kdb5_util": "krb5-kdc", "kadmin.local": "krb5-admin-server"}
_CIPHER = "aes256-cts-hmac-sha1-96"
_START_S = 30.0


def service_of(host: str) -> str:
    """The principal that a client wants a ticket for when it connects to this host."""
    return f"{SERVICE}/{host}@{REALM}"


def kcat() -> str:
    """The path of kcat; the test is skipped where it, `kinit` or GSSAPI for Cyrus SASL are missing."""
    program("kinit", "krb5-user")
    if not any(Path("/usr/lib").glob("*/sasl2/libgssapiv2.so*")):
        without(
            Need.TOOLS,
            "no GSSAPI for Cyrus SASL here: install Debian's package `libsasl2-modules-gssapi-mit`",
        )
    return program("kcat", "kcat")


class Realm:
    """A KDC that runs between `__enter__` and `__exit__`; a test is skipped where its programs are missing.

    `hosts` are the names that Java clients and brokers resolve, each with its address: what DNS has elsewhere. The
    first name of an address is what its reverse lookup returns.
    """

    def __init__(self, folder: Path, hosts: Mapping[str, str]) -> None:
        self.folder = folder
        self._programs = {name: program(name, package) for name, package in _PROGRAMS.items()}
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._write("hosts", "".join(f"{address} {name}\n" for name, address in hosts.items()))
        self._configure()
        self._run("kdb5_util", "create", "-r", REALM, "-s", "-P", "the master key of a test")

    @property
    def java_options(self) -> tuple[str, ...]:
        """What makes a JVM know this realm and its hosts."""
        return (
            f"-Djava.security.krb5.conf={self.folder / 'krb5.conf'}",
            f"-Djdk.net.hosts.file={self.folder / 'hosts'}",
        )

    def keytab(self, name: str, *principals: str) -> Path:
        """Make principals that are not there yet, each with a random key; return a file with the keys of all."""
        path = self.folder / f"{name}.keytab"
        for principal in principals:
            self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
            self._run("kadmin.local", "-r", REALM, "ktadd", "-norandkey", "-k", str(path), principal)
        return path

    def keytab_of_one_account(self, name: str, *principals: str) -> Path:
        """Make principals with one key, as one account in Active Directory has them; return a file of the first."""
        path = self.folder / f"{name}.keytab"
        for principal in principals:
            self._run(
                "kadmin.local", "-r", REALM, "addprinc", "-pw", "one key", "-e", f"{_CIPHER}:onlyrealm", principal
            )  # fmt: skip
        self._run("kadmin.local", "-r", REALM, "ktadd", "-norandkey", "-k", str(path), principals[0])
        return path

    def refused_tickets(self) -> set[str]:
        """The services, as `kafka/host@REALM`, that clients wanted tickets for and that the realm does not have."""
        log = (self.folder / "kdc.log").read_text()
        return set(re.findall(r" for (\S+), Server not found", log))

    def jaas(self, keytab: Path, principal: str) -> str:
        """How a JVM is this principal, as a client or as a broker."""
        return (
            f"{_MODULE} required useKeyTab=true storeKey=true refreshKrb5Config=true "
            f'keyTab="{keytab}" principal="{principal}";'
        )

    def listener(self, keytab: Path, principal: str, *, reauthentication_ms: int = 0) -> dict[str, str]:
        """The settings of a broker's listener with GSSAPI that is this principal."""
        return {
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": SERVICE,
            "gssapi.sasl.jaas.config": self.jaas(keytab, principal),
            "gssapi.connections.max.reauth.ms": str(reauthentication_ms),
        }

    def client(self, user: str) -> dict[str, object]:
        """The settings of a Java client that is this user of the realm."""
        principal = f"{user}@{REALM}"
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": SERVICE,
            "sasl.jaas.config": self.jaas(self.keytab(user, principal), principal),
        }

    @contextlib.contextmanager
    def kcat(self, user: str, folder: Path, bootstrap: str, group: str, topic: str) -> Iterator[Path]:
        """Run kcat, librdkafka with Cyrus SASL, as a member of a group; yields the file where it writes what it reads.

        Each record is a line: topic, partition, offset.
        """
        principal = f"{user}@{REALM}"
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": SERVICE,
            "sasl.kerberos.keytab": str(self.keytab(user, principal)),
            "sasl.kerberos.principal": principal,
            "auto.offset.reset": "earliest",
        }
        options = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
        command = [kcat(), "-b", bootstrap, *options, "-u", "-f", "%t %p %o\n", "-G", group, topic]
        read = folder / "kcat.records"
        with read.open("wb") as out, (folder / "kcat.stderr").open("wb") as err:
            cache = {"KRB5CCNAME": f"FILE:{folder}/kcat.tickets"}
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={**self._environment, **cache}
            )
            try:
                yield read
            finally:
                process.terminate()
                process.wait()

    def of_realm(self, kind: ClientKind) -> ClientKind:
        """The same kind of client, a Java one, in this realm."""

        def command(log: Path) -> list[str]:
            java, *arguments = kind.command(log)
            return [java, *self.java_options, *arguments]

        return replace(kind, command=command)

    def __enter__(self) -> Self:
        with (self.folder / "kdc.console").open("wb") as console:
            self._process = subprocess.Popen(
                [self._programs["krb5kdc"], "-n", "-r", REALM],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env=self._environment,
            )
        eventually(self._answers, what="the KDC listens", timeout_s=_START_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait()

    @property
    def _environment(self) -> dict[str, str]:
        own = {
            "KRB5_CONFIG": str(self.folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
        }
        return {**os.environ, **own}

    def _configure(self) -> None:
        self._write(
            "krb5.conf",
            f"""[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {REALM} = {{
  kdc = {LOOPBACK}:{self._port}
 }}
""",
        )
        self._write(
            "kdc.conf",
            f"""[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = {LOOPBACK}:{self._port}
[realms]
 {REALM} = {{
  database_name = {self.folder}/principal
  key_stash_file = {self.folder}/stash
  acl_file = {self.folder}/kadm5.acl
  supported_enctypes = {_CIPHER}:normal
 }}
[logging]
 kdc = FILE:{self.folder}/kdc.log
 admin_server = FILE:{self.folder}/kadmin.log
""",
        )

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs[program], *arguments],
            capture_output=True,
            text=True,
            env=self._environment,
            check=False,
            timeout=60,
        )
        already = "already exists" in done.stderr
        assert done.returncode == 0 or already, f"{program} {arguments}: {done.stdout}{done.stderr}"

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "kdc.console").read_text()
        try:
            socket.create_connection((LOOPBACK, self._port), 1).close()
        except OSError:
            return False
        return True
