"""The emulated array's certificate: made once under the state folder, self-signed as a new array's is."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from collections.abc import Collection
from pathlib import Path

from kvlab.errors import KvlabError

_LIFETIME = datetime.timedelta(days=3650)


def context(folder: Path, address: str, names: Collection[str] = ()) -> ssl.SSLContext:
    """A server context with cert.pem and key.pem of the folder, for localhost, the address and host `names`.

    They are made when they are missing, and never changed: for other names remove the folder. Clients trust
    cert.pem itself (boto3: verify, NIXL: ca_bundle).
    """
    certificate, key = folder / "cert.pem", folder / "key.pem"
    try:
        if not (certificate.exists() and key.exists()):
            _make(certificate, key, address, names)
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        found.minimum_version = ssl.TLSVersion.TLSv1_2
        found.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise KvlabError(
            f"the certificate in {folder} cannot be used ({error}); remove that folder"
        ) from None
    return found


def _make(certificate: Path, key: Path, address: str, names: Collection[str]) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    certificate.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kvlab emulated ObjectScale (simulated)")])
    addresses = {
        ipaddress.ip_address("127.0.0.1"),
        ipaddress.ip_address("::1"),
        ipaddress.ip_address(address),
    }
    held: list[x509.GeneralName] = [x509.DNSName(n) for n in ("localhost", *names)]
    held += [x509.IPAddress(a) for a in sorted(addresses, key=str) if not a.is_unspecified]
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName(held), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, hashes.SHA256())
    )
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    fd = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as handle:
        handle.write(pem)
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
