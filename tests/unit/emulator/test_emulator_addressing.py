"""Virtual-host style: which bucket a host names, and boto3 with it."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator_helpers import Emulator, free_port, refused

from kvlab.emulator.addressing import BaseUrl, locate

_BASES = (BaseUrl("s3.test"), BaseUrl("ns.s3.test", namespace_in_host=True), BaseUrl("other.test"))


@pytest.mark.parametrize(
    ("host", "bucket", "namespace"),
    [
        ("s3.test", "", ""),
        ("s3.test:9020", "", ""),
        ("127.0.0.1:9020", "", ""),
        ("[::1]:9020", "", ""),
        ("elsewhere.example", "", ""),
        ("s3.test.example", "", ""),
        ("xxs3.test", "", ""),
        ("a.s3.test:9020", "a", ""),
        ("A.S3.Test", "A", ""),
        ("a.b.c.s3.test", "a.b.c", ""),
        ("a.other.test", "a", ""),
        ("ns.s3.test", "", ""),  # the longer base URL decides
        ("ns1.ns.s3.test", "", "ns1"),
        ("a.ns1.ns.s3.test", "a", "ns1"),
        ("a.b.ns1.ns.s3.test:9020", "a.b", "ns1"),
        ("", "", ""),
    ],
)
def test_a_host_names_a_bucket_and_a_namespace(host: str, bucket: str, namespace: str) -> None:
    assert locate(host, _BASES) == (bucket, namespace)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An emulator with base URLs, also over TLS; every name under .test is this machine."""
    known = socket.getaddrinfo

    def look_up(host: Any, *more: Any, **options: Any) -> Any:
        return known("127.0.0.1" if str(host).endswith(".test") else host, *more, **options)

    arguments = ["--base-url", "S3.test", "--namespace-base-url", "ns.test", "--tls-port", str(free_port())]
    emulator = Emulator(tmp_path_factory.mktemp("hosts"), arguments).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", look_up)
        yield emulator
    emulator.stop()


def _client(emulator: Emulator, host: str, **options: Any) -> Any:
    return emulator.client(url=f"http://{host}:{emulator.port}", addressing_style="virtual", **options)


def test_boto3_works_with_the_bucket_in_the_host(hosts: Emulator) -> None:
    client = _client(hosts, "s3.test")
    client.create_bucket(Bucket="virtual")
    client.put_object(Bucket="virtual", Key="folder/k", Body=b"abc")
    assert client.get_object(Bucket="virtual", Key="folder/k")["Body"].read() == b"abc"
    assert [c["Key"] for c in client.list_objects_v2(Bucket="virtual")["Contents"]] == ["folder/k"]
    record = hosts.log()[-2]
    assert (record["op"], record["bucket"], record["key"]) == ("GetObject", "virtual", "folder/k")
    assert "virtual" in [b["Name"] for b in client.list_buckets()["Buckets"]]
    assert hosts.client().get_object(Bucket="virtual", Key="folder/k")["Body"].read() == b"abc"


def test_path_style_goes_on_working_beside_it(hosts: Emulator) -> None:
    client = hosts.client()
    client.create_bucket(Bucket="path")
    client.put_object(Bucket="path", Key="k", Body=b"abc")
    by_name = hosts.client(url=f"http://s3.test:{hosts.port}")
    assert by_name.get_object(Bucket="path", Key="k")["Body"].read() == b"abc"


def test_a_url_that_was_presigned_for_the_host_is_taken(hosts: Emulator) -> None:
    client = _client(hosts, "s3.test", signature_version="s3v4")
    client.create_bucket(Bucket="signed")
    client.put_object(Bucket="signed", Key="k", Body=b"abc")
    url = client.generate_presigned_url("get_object", Params={"Bucket": "signed", "Key": "k"})
    found = re.fullmatch(r"http://(signed\.s3\.test:\d+)(/k\?.*)", url)
    assert found

    def status(host: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", hosts.port, timeout=20)
        connection.request("GET", found[2], headers={"Host": host})
        return connection.getresponse().status

    assert status(found[1]) == 200
    assert status(found[1].replace("signed", "other")) == 403  # the host is part of the signature


def test_the_namespace_in_the_host_must_be_the_users(hosts: Emulator) -> None:
    own = _client(hosts, "ns1.ns.test")
    own.create_bucket(Bucket="spaced")
    own.put_object(Bucket="spaced", Key="k", Body=b"abc")
    assert own.get_object(Bucket="spaced", Key="k")["Body"].read() == b"abc"
    assert hosts.log()[-1]["bucket"] == "spaced"
    assert refused(_client(hosts, "ns2.ns.test").get_object, Bucket="spaced", Key="k") == (
        "AccessDenied",
        403,
    )


def test_the_certificate_is_good_for_the_base_urls_and_their_buckets(hosts: Emulator) -> None:
    context = ssl.create_default_context(cafile=str(hosts.state / "tls" / "cert.pem"))
    port = int(hosts.arguments[-1])
    for name in ("s3.test", "a.s3.test", "ns1.ns.test"):
        with (
            socket.create_connection(("127.0.0.1", port), 20) as plain,
            context.wrap_socket(plain, server_hostname=name) as secure,
        ):
            assert secure.version()


def test_a_base_url_with_a_scheme_is_refused_with_a_sentence(tmp_path: Path) -> None:
    emulator = Emulator(tmp_path, ["--base-url", "http://s3.test"])
    done = subprocess.run(emulator.command(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "http://s3.test is no host name such as s3.lab.example" in done.stderr
