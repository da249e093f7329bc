"""A certificate that only those trust who have its file."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Certificate", "self_signed"]


@dataclass(frozen=True)
class Certificate:
    file: Path
    server: ssl.SSLContext

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.file))


def self_signed(directory: Path, *names: str) -> Certificate:
    """For 127.0.0.1 and these names."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    whose = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), *(x509.DNSName(one) for one in names)]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(whose), False)
        .sign(key, hashes.SHA256())
    )
    chain, private = directory / "cert.pem", directory / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, private)
    return Certificate(chain, server)
