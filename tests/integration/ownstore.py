"""An emulated object store that belongs to one test: it may be killed, filled and made to lie beside the lab.

It has the lab's user and bucket for round trips, so that a job for the lab's store becomes one for it by its endpoint.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from harness import Bench

from kvlab.probes import Facts, access_log, key_pair, s3_bucket

START_S = 60


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@dataclass
class OwnStore:
    """`kvlab emulator` in a folder of the test's."""

    folder: Path
    bench: Bench
    port: int = 0
    admin_port: int = 0
    tls_port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def tls_endpoint(self) -> str:
        return f"https://127.0.0.1:{self.tls_port}"

    @property
    def certificate(self) -> Path:
        """What a client must trust: made at the first start with TLS, self-signed as a new array's is."""
        return self.folder / "state" / "tls" / "cert.pem"

    @property
    def s3(self) -> Any:
        data = self.bench.lab.data
        return s3_bucket.client(self.endpoint, data["region"], data["secrets_file"])

    def start(self, *, tls: bool = False) -> None:
        """Start it, again on the same ports, and wait until it listens; with `tls` on a port with TLS, too."""
        self.port = self.port or _free_port()
        self.admin_port = self.admin_port or _free_port()
        if tls:
            self.tls_port = self.tls_port or _free_port()
        users = self.folder / "users.json"
        users.touch(mode=0o600)
        access_key, secret_key = key_pair(self.bench.lab.data["secrets_file"])
        user = {"access_key": access_key, "secret_keys": [secret_key], "namespace": "kvlab"}
        users.write_text(json.dumps({"users": [user]}))
        command = [
            str(Path(sys.executable).with_name("kvlab")),
            "emulator",
            "--state",
            str(self.folder / "state"),
        ]
        command += ["--s3-port", str(self.port), "--admin-port", str(self.admin_port), "--users", str(users)]
        command += ["--access-log", str(self.folder / "log"), "--tls-port", str(self.tls_port)]
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self.process.poll() is None, (self.folder / "output").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def kill(self) -> None:
        """Kill it without a warning, as a node that loses power."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def arm(self, kind: str, **fields: object) -> None:
        """Arm a fault."""
        fault = {"kind": kind, **fields}
        httpx.post(
            f"http://127.0.0.1:{self.admin_port}/faults", json=fault, trust_env=False
        ).raise_for_status()

    def disarm(self) -> None:
        """Clear every fault."""
        httpx.delete(f"http://127.0.0.1:{self.admin_port}/faults", trust_env=False).raise_for_status()

    def job(self, engine: str, *, tls: bool = False, trusted: bool = True, **more: Any) -> dict[str, Any]:
        """A job for NIXL against this store; with `tls` over TLS, its certificate `trusted` or not."""
        job = self.bench.job(engine, **more)
        endpoint = self.tls_endpoint if tls else self.endpoint
        params = job["params"] | {"endpoint_override": endpoint}
        if tls:
            params |= {"scheme": "https"} | ({"ca_bundle": str(self.certificate)} if trusted else {})
        return job | {"endpoint": endpoint, "params": params}

    def requests(self) -> list[Facts]:
        """All that it has logged."""
        return list(access_log.read(self.folder / "log", access_log.START, self.bench.bucket)["requests"])
