"""A running emulator, boto3 clients for it, and what several test modules need."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

USERS = {
    "users": [
        {"access_key": "kvlab", "secret_keys": ["first/secret+1", "second"], "namespace": "ns1"},
        {"access_key": "neighbour", "secret_keys": ["neighbour-secret"], "namespace": "ns1"},
        {"access_key": "stranger", "secret_keys": ["stranger-secret"], "namespace": "ns2"},
        {"access_key": "locked", "secret_keys": ["locked-secret"], "namespace": "ns1", "locked": True},
    ]
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Emulator:
    """A `kvlab emulator` process with a state folder of its own."""

    folder: Path
    arguments: list[str] = field(default_factory=list)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[str] | None = None

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def users(self) -> Path:
        return self.folder / "users.json"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-c", "from kvlab.cli import main; main()", "emulator"),
            *("--state", str(self.state), "--users", str(self.users), "--s3-port", str(self.port)),
            *self.arguments,
        ]

    def start(self) -> Emulator:
        if not self.users.exists():
            self.users.touch(mode=0o600)
            self.users.write_text(json.dumps(USERS))
        self.process = subprocess.Popen(
            self.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "S3 on" in line, line + self.process.stdout.read()
        return self

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(20)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def stop(self) -> None:
        self.kill(signal.SIGTERM)

    def client(
        self, key: str = "kvlab", secret: str = "first/secret+1", url: str = "", **options: Any
    ) -> Any:
        verify = options.pop("verify", None)
        region = options.pop("region", "us-east-1")
        style = options.pop("addressing_style", "path")
        options.setdefault("request_checksum_calculation", "when_required")
        options.setdefault("response_checksum_validation", "when_required")
        return _session().client(
            "s3",
            endpoint_url=url or self.url,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            region_name=region,
            verify=verify,
            config=Config(
                s3={"addressing_style": style}, retries={"max_attempts": 0}, read_timeout=30, **options
            ),
        )

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.state / "access.log").read_text().splitlines()]

    def data_files(self) -> list[Path]:
        return [p for p in self.state.rglob("*") if p.is_file() and re.fullmatch("[0-9a-f]{32}", p.name)]

    def memory(self) -> int:
        """Peak resident memory in bytes."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found
        return int(found[1]) * 1024


@functools.cache
def _session() -> Any:
    """One for all: reading botocore's service model takes longer than most tests."""
    return boto3.Session()


def wait_until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    """Until the condition holds; fails when it never does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def refused(call: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[str, int]:
    """(code, status) of the S3 error that the call must end in."""
    with pytest.raises(ClientError) as caught:
        call(*args, **kwargs)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def with_header(client: Any, operation: str, name: str, value: str, **arguments: Any) -> Any:
    """Call a client's operation with one more header, which is signed."""

    def add(request: Any, **_: Any) -> None:
        request.headers[name] = value

    client.meta.events.register("before-sign.s3", add, unique_id=name)
    try:
        return getattr(client, operation)(**arguments)
    finally:
        client.meta.events.unregister("before-sign.s3", unique_id=name)


def with_md5(client: Any) -> None:
    """Make the client send Content-MD5, as one must towards ECS."""

    def add(request: Any, **_: Any) -> None:
        digest = hashlib.md5(request.body or b"").digest()
        request.headers["Content-MD5"] = base64.b64encode(digest).decode()

    client.meta.events.register("before-sign.s3.*", add)
