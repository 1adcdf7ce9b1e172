"""An emulated object store (S3 alone) for tests of what lies above the emulator."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvlab.objectscale import s3

_NUMBERS = itertools.count()


@dataclass
class ObjectStore:
    """A running `kvlab emulator` (S3 alone) and its one user."""

    folder: Path
    access_key: str = "kvlab"
    secret_key: str = field(default="not-a-secret", repr=False)
    port: int = 0
    arguments: tuple[str, ...] = ()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def access(self) -> dict[str, str]:
        """The options that the modules over S3 share."""
        return {"endpoint": self.endpoint, "access_key": self.access_key, "secret_key": self.secret_key}

    @property
    def client(self) -> Any:
        return s3.client(self.endpoint, self.access_key, self.secret_key)

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The access log."""
        return [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]

    def private_file(self, name: str, content: Any) -> Path:
        """A 0600 file of JSON."""
        file = self.folder / name
        file.touch(mode=0o600)
        file.write_text(json.dumps(content))
        return file

    @property
    def secrets_file(self) -> Path:
        return self.private_file("s.json", {"access_key": self.access_key, "secret_key": self.secret_key})

    def bucket(self, *keys: str, size: int = 2) -> str:
        """A new bucket with these objects, each of `size` bytes."""
        name = f"bucket-{next(_NUMBERS)}"
        self.client.create_bucket(Bucket=name)
        for key in keys:
            self.client.put_object(Bucket=name, Key=key, Body=bytes(size))
        return name

    def keys(self, bucket: str) -> list[str]:
        return [key for key, _ in s3.keys(self.client, bucket)]

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, and wait until it listens."""
        user = {"access_key": self.access_key, "secret_keys": [self.secret_key], "namespace": "kvlab"}
        users = self.private_file("users.json", {"users": [user]})
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        command = [Path(sys.executable).with_name("kvlab"), "emulator", "--state", self.folder / "state"]
        command += ["--s3-port", str(self.port), "--users", users, "--access-log", self.folder / "log"]
        process = subprocess.Popen([*command, *self.arguments], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return process
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
