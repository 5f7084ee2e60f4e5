"""How Flower's processes are told where to listen, whom to trust, and to stay on this machine."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import fgl_secure
from fgl_secure.errors import InputError
from fgl_secure.flower.kept import STATE_VARIABLE
from fgl_secure.private_files import write_private

LIFETIME = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files that a server on this machine, and those who trust it, need.

    Attributes:
        authority: certificate of the authority, PEM.
        certificate: of the server, for localhost, 127.0.0.1 and ::1, PEM.
        key: private key of the server, PEM, readable by its owner only.
    """

    authority: Path
    certificate: Path
    key: Path


def make_certificates(folder: Path) -> Certificates:
    """A fresh authority and a server certificate signed by it; the authority's key is not kept.

    Args:
        folder: where the three files go.
    """
    files = Certificates(folder / "authority.pem", folder / "server.pem", folder / "server.key")
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name, server_name = _name("fgl-secure local authority"), _name("localhost")
    authority = (
        _builder(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .sign(authority_key, SHA256())
    )
    server = (
        _builder(server_name, authority_name, server_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(_addresses()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, SHA256())
    )
    files.authority.write_bytes(authority.public_bytes(Encoding.PEM))
    files.certificate.write_bytes(server.public_bytes(Encoding.PEM))
    write_private(files.key, server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _addresses() -> list[x509.GeneralName]:
    numbers = [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
    return [x509.DNSName("localhost"), *numbers]


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


NO_PROXY = "127.0.0.1,localhost"


def offline_variables(home: Path) -> dict[str, str]:
    """This process's variables, and those that keep Flower offline and its files in one folder.

    Args:
        home: where Flower keeps its configuration and the apps that it runs.
    """
    package = str(Path(fgl_secure.__file__).parent.parent)
    paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return os.environ | {
        "FLWR_HOME": str(home.absolute()),  # a relative one would be made in whatever folder a process runs in
        STATE_VARIABLE: str(home.absolute() / "states"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.3",
        "NO_PROXY": NO_PROXY,
        "no_proxy": NO_PROXY,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
    }


def serving_options(files: Certificates) -> list[str]:
    """Options of a process that serves over TLS, and tells those that it starts whom to trust."""
    options = ["--ssl-certfile", str(files.certificate), "--ssl-keyfile", str(files.key)]
    return [*options, "--ssl-ca-certfile", str(files.authority)]


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def as_toml(value: str | int | float | bool) -> str:
    """A value as Flower's command line reads it.

    Raises:
        InputError: a text with a quotation mark or a line break, which cannot be written there.
    """
    if isinstance(value, str) and ('"' in value or "\n" in value):
        raise InputError(f"text must be without quotation marks and line breaks; found {value!r}")
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
