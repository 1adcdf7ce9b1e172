"""An emulated array for the modules of the management API: S3 over HTTP and the management API over TLS."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PASSWORD = "not-the-password"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Array:
    """A `kvlab emulator` process with a state folder of its own."""

    folder: Path
    s3_port: int = field(default_factory=_free_port)
    port: int = field(default_factory=_free_port)
    admin_port: int = field(default_factory=_free_port)
    locked_user: str = ""
    process: subprocess.Popen[bytes] | None = None

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def s3(self) -> str:
        return f"http://127.0.0.1:{self.s3_port}"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def trust_file(self) -> Path:
        return self.state / "tls/cert.pem"

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.trust_file)

    @property
    def log(self) -> Path:
        return self.folder / "management.log"

    @property
    def access(self) -> dict[str, Any]:
        """The options that all modules share."""
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "username": "root",
            "password": PASSWORD,
            "ca_path": str(self.trust_file),
        }

    def start(self) -> Array:
        credentials = self.folder / "credentials.json"
        credentials.touch(mode=0o600)
        users: list[dict[str, Any]] = [{"username": "root", "password": PASSWORD}]
        if self.locked_user:
            users.append({"username": self.locked_user, "password": PASSWORD, "locked": True})
        credentials.write_text(json.dumps({"users": users}))
        command = [Path(sys.executable).with_name("kvlab"), "emulator", "--state", self.state]
        command += ["--s3-port", str(self.s3_port), "--management-port", str(self.port)]
        command += ["--management-credentials", credentials, "--management-log", self.log]
        command += ["--admin-port", str(self.admin_port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        for port in (self.s3_port, self.port):
            while not _answers(port):
                assert self.process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        return self

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)

    def requests(self) -> list[str]:
        """`METHOD path` of every management request so far."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [f"{line['method']} {line['path']}" for line in lines]


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
