"""More endpoints than the lab has: emulated stores of the drill's own beside it, one of which is broken."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from kvlab.drills import faults, programs
from kvlab.drills.bench import Bench, free_port
from kvlab.drills.drill import Drill, Scene
from kvlab.errors import KvlabError
from kvlab.objectscale import s3
from kvlab.probes import key_pair
from kvlab.serving.answers import answers

SLOW_S = 0.1
NODES = 2


class Node:
    """An emulated store that knows the lab's user and its bucket for tests, with a fault interface."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench, self._folder = bench, folder
        self._port, self._admin = free_port(), free_port()
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers. Raises KvlabError when it does not."""
        self._folder.mkdir(exist_ok=True)
        access_key, secret_key = key_pair(self._bench.data["secrets_file"])
        users = self._folder / "users.json"
        users.touch(mode=0o600)
        user = {"access_key": access_key, "secret_keys": [secret_key], "namespace": "kvlab"}
        users.write_text(json.dumps({"users": [user]}))
        command = [str(Path(sys.executable).with_name("kvlab")), "emulator", "--users", str(users)]
        command += ["--state", str(self._folder / "state"), "--s3-port", str(self._port)]
        self._process = subprocess.Popen(
            [*command, "--admin-port", str(self._admin)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=programs.die_with_parent,
        )
        deadline = time.monotonic() + programs.START_S
        while not answers(self.endpoint):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise KvlabError(f"a second store for the drill did not start at {self.endpoint}.")
            time.sleep(0.1)
        client = s3.client(self.endpoint, access_key, secret_key)
        if not s3.bucket_exists(client, self._bench.bucket):
            client.create_bucket(Bucket=self._bench.bucket)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    @contextmanager
    def down(self) -> Iterator[None]:
        """It does not run meanwhile."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def slow(self) -> AbstractContextManager[None]:
        """It waits before each request meanwhile."""
        return faults.armed(self._admin, "latency", seconds=SLOW_S)


def _scene(breaks: Callable[[Node], AbstractContextManager[None]]) -> Callable[[Bench], Scene]:
    """The lab's endpoint and two more, which run until the bench is closed; the last one is broken."""

    def scene(bench: Bench) -> Scene:
        folder = Path(bench.keep(tempfile.TemporaryDirectory(prefix="kvlab-drill-")))
        nodes = [Node(bench, folder / str(number)) for number in range(NODES)]
        with ExitStack() as started:
            for node in nodes:
                started.callback(node.stop)
                node.start()
            bench.keep(started.pop_all())
        endpoints = [str(bench.data["endpoint"]), *(node.endpoint for node in nodes)]
        return Scene(lambda: bench.look_at_store(endpoints=endpoints), lambda: breaks(nodes[-1]))

    return scene


DRILLS = (
    Drill(
        name="endpoint-slow",
        kind="scratch",
        breaks="one of three endpoints is slower than the others by far more than 3x",
        staged="two more emulated stores beside the lab's; each request to one of them waits 0.1 s",
        origin="thought up here",
        reference="issue 8",
        expects="S3006",
        scene=_scene(Node.slow),
    ),
    Drill(
        name="endpoint-down",
        kind="scratch",
        breaks="one of three endpoints does not answer",
        staged="two more emulated stores beside the lab's; one of them is stopped",
        origin="field report",
        reference="facts/provisioning.md 2.8b: closed port",
        expects="S3005",
        scene=_scene(Node.down),
        words="nothing answers",
    ),
)
