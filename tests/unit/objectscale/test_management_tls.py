"""What keeps a connection from being made is told apart; against real sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kvlab.emulator import tls
from kvlab.objectscale.errors import UnreachableError
from kvlab.objectscale.management import Management
from kvlab.objectscale.wire import Access


class _Login(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("X-SDS-AUTH-TOKEN", "t")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing of it belongs in a test's output."""


@contextmanager
def array_at(address: str, folder: Path) -> Iterator[int]:
    """An array at a loopback address; its certificate, cert.pem of the folder, is for 127.0.0.1 and localhost."""
    server = HTTPServer((address, 0), _Login)
    server.socket = tls.context(folder, "127.0.0.1").wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with array_at("127.0.0.1", tmp_path) as port:
        yield port


def enter(access: Access) -> None:
    with Management(access) as api:
        api.login()


def refusal(access: Access) -> str:
    with pytest.raises(UnreachableError) as raised:
        enter(access)
    return str(raised.value)


def test_a_certificate_of_the_given_ca_is_accepted(port: int, tmp_path: Path) -> None:
    enter(Access("127.0.0.1", "u", "p", port, ca_path=str(tmp_path / "cert.pem")))


def test_a_proxy_for_downloads_is_not_used_for_the_array(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    enter(Access("127.0.0.1", "u", "p", port, ca_path=str(tmp_path / "cert.pem")))


def test_an_unknown_certificate_is_refused(port: int) -> None:
    said = refusal(Access("127.0.0.1", "u", "p", port))
    assert f"the certificate of https://127.0.0.1:{port} is not accepted (self-signed certificate)" in said
    assert "ca_path" in said


def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    with array_at("127.0.0.2", tmp_path) as port:
        said = refusal(Access("127.0.0.2", "u", "p", port, ca_path=str(tmp_path / "cert.pem")))
    assert "IP address mismatch" in said
    assert "the name that its certificate is for as host" in said


def test_verification_can_be_switched_off(port: int) -> None:
    enter(Access("127.0.0.1", "u", "p", port, validate_certs=False))


def test_a_port_that_speaks_no_tls_is_told() -> None:
    server = HTTPServer(("127.0.0.1", 0), _Login)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        assert "does not speak TLS" in refusal(Access("127.0.0.1", "u", "p", server.server_port))
    finally:
        thread.join()
        server.server_close()


def test_a_closed_port_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    assert f"nothing answers at https://127.0.0.1:{port}" in refusal(Access("127.0.0.1", "u", "p", port))


def test_an_unknown_name_is_told() -> None:
    assert "the name array.invalid is not known" in refusal(Access("array.invalid", "u", "p"))
