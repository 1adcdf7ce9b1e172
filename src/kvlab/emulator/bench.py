"""`kvlab bench emulator`: how fast the emulator is, as a share of what the machine can do at all.

Floor, peer (moto_server) and emulator take turns within each round, so that a busy machine slows all of them alike.
A figure is the median over the rounds; a ratio is the emulator's rate over the floor's. Everything is simulated:
these are no figures of an array.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import re
import secrets
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvlab.emulator import bench_floor
from kvlab.emulator.faults import LISTS
from kvlab.emulator.log import read_log
from kvlab.errors import KvlabError

MIB = 1 << 20
LARGE, MEDIUM, SMALL = 32 * MIB, MIB, 4096
# What the issue asks for: ratios over the floors, and absolute figures.
TARGETS = {
    "rdma_get_32MiB": 0.60,
    "rdma_put_32MiB": 0.60,
    "http_get_32MiB": 0.60,
    "http_put_32MiB": 0.35,
    "http_get_4KiB": 0.50,
}
MIN_RDMA_GETS_PER_SECOND, MAX_LIST_SECONDS, MAX_RESIDENT_MB = 450.0, 2.0, 250.0
_BUCKET = "bench"


@dataclass(frozen=True)
class Settings:
    """What to measure. `folder` decides the file system; `stored_gib` how much is stored for the memory figure."""

    folder: Path | None = None
    rounds: int = 15
    serving_python: Path | None = None  # with nixl; None: the Python client stands in for NIXL
    cuobject: Path | None = None  # folder of libcuobjclient.so.1, for the serving venv
    moto: Path | None = None
    stored_gib: int = 0
    listed: int = 10_000  # objects of the listing


@dataclass
class Series:
    """Seconds per operation of each contender, one value per round."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def take(self, who: str, work: Callable[[], float | None]) -> None:
        start = time.perf_counter()
        told = work()
        self.seconds.setdefault(who, []).append(time.perf_counter() - start if told is None else told)

    def median(self, who: str) -> float | None:
        return statistics.median(self.seconds[who]) if who in self.seconds else None

    def over(self, faster: str, slower: str) -> float | None:
        """Rate of `slower` over rate of `faster`."""
        a, b = self.median(faster), self.median(slower)
        return None if a is None or b is None else a / b


@contextlib.contextmanager
def process(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A child that is stopped at the end."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


class Peer:
    """The process that moves one-sided; see bench_client."""

    def __init__(self, child: subprocess.Popen[str], job: dict[str, Any]) -> None:
        self._child = child
        told = self.ask(job)
        self.pid, self.address = int(told["pid"]), int(told["address"])

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(order) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        while line and not line.startswith("{"):  # NIXL writes its log to standard output
            line = self._child.stdout.readline()
        if not line:
            raise KvlabError("the one-sided client ended; its own words are above")
        found: dict[str, Any] = json.loads(line)
        return found

    def seconds(self, op: str, key: str, size: int) -> float:
        return float(self.ask({"op": op, "key": key, "size": size})["seconds"])


def run(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure everything; the figures as JSON. `say` gets progress lines."""
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="kvlab-bench-", dir=settings.folder))
        )
        access, secret = "bench", secrets.token_hex(16)
        emulator, endpoint = _emulator(stack, folder, access, secret)
        client = _client(endpoint, access, secret)
        client.create_bucket(Bucket=_BUCKET)
        say(f"state on {folder}, {settings.rounds} rounds, {os.cpu_count()} CPUs; everything is simulated")
        series = _http(stack, settings, folder, client, say)
        job = {
            "endpoint": endpoint,
            "bucket": _BUCKET,
            "access_key": access,
            "secret_key": secret,
            "size": LARGE,
        }
        peer = _peer(stack, settings, folder, job)
        series |= _one_sided(settings, folder, peer, say)
        listing = _listing(client, settings.listed, say)
        if settings.stored_gib:
            say(f"storing {settings.stored_gib} GiB")
            for number in range(settings.stored_gib * 1024 * MIB // LARGE):
                peer.seconds("write", f"stored-{number}", LARGE)
        result = _result(settings, series)
        result["list_10000_seconds"] = round(listing, 3)
        result["list_10000_server_seconds"] = round(_server_seconds(folder / "state" / "access.log"), 3)
        result["resident_mb"] = round(resident(emulator.pid) / 1e6, 1)
        result["misses"] = misses(result)
        return result


def _emulator(
    stack: contextlib.ExitStack, folder: Path, access: str, secret: str
) -> tuple[subprocess.Popen[str], str]:
    users = folder / "users.json"
    users.touch(mode=0o600)
    users.write_text(
        json.dumps({"users": [{"access_key": access, "secret_keys": [secret], "namespace": "ns1"}]})
    )
    port = free_port()
    command = [
        *(sys.executable, "-c", "from kvlab.cli import main; main()", "emulator"),
        *("--state", str(folder / "state"), "--users", str(users), "--s3-port", str(port)),
    ]
    child = stack.enter_context(process(command))
    assert child.stdout
    if "S3 on" not in child.stdout.readline():
        raise KvlabError("the emulator did not start; its own words are above")
    return child, f"http://127.0.0.1:{port}"


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _client(endpoint: str, access: str, secret: str) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=Config(
            s3={"addressing_style": "path"},
            retries={"max_attempts": 0},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )


def _http(
    stack: contextlib.ExitStack, settings: Settings, folder: Path, client: Any, say: Callable[[str], None]
) -> dict[str, Series]:
    contenders = {"emulator": client}
    served = folder / "floor"
    served.mkdir()
    floor = stack.enter_context(process([sys.executable, "-m", "kvlab.emulator.bench_floor", str(served)]))
    assert floor.stdout
    contenders["floor"] = _client(f"http://127.0.0.1:{int(floor.stdout.readline())}", "floor", "floor")
    if settings.moto:
        contenders["moto"] = _moto(stack, settings.moto)
    data = {size: os.urandom(size) for size in (LARGE, SMALL)}

    def put(who: Any, size: int) -> None:
        who.put_object(Bucket=_BUCKET, Key=f"k{size}", Body=data[size])

    def get(who: Any, size: int) -> None:
        if len(who.get_object(Bucket=_BUCKET, Key=f"k{size}")["Body"].read()) != size:
            raise KvlabError("a GET came back with another size")

    series = {}
    for name, work, size, repeat in (
        ("http_put_32MiB", put, LARGE, 1),
        ("http_get_32MiB", get, LARGE, 1),
        ("http_get_4KiB", get, SMALL, 40),
    ):
        say(name)
        series[name] = found = Series()
        for who in contenders.values():
            put(who, size)
            get(who, size)
        for _ in range(settings.rounds):
            for label, who in contenders.items():

                def many(who: Any = who, work: Any = work, size: int = size, repeat: int = repeat) -> float:
                    start = time.perf_counter()
                    for _ in range(repeat):
                        work(who, size)
                    return (time.perf_counter() - start) / repeat

                found.take(label, many)
    return series


def _moto(stack: contextlib.ExitStack, moto: Path) -> Any:
    port = free_port()
    stack.enter_context(process([str(moto), "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL))
    client = _client(f"http://127.0.0.1:{port}", "moto", "moto")
    for _ in range(200):
        with contextlib.suppress(Exception):
            client.create_bucket(Bucket=_BUCKET)
            return client
        time.sleep(0.1)
    raise KvlabError(f"{moto} did not start")


def _peer(stack: contextlib.ExitStack, settings: Settings, folder: Path, job: dict[str, Any]) -> Peer:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    if settings.serving_python:
        cufile = folder / "cufile.json"
        cufile.write_text(json.dumps({"properties": {"rdma_dev_addr_list": ["127.0.0.1"]}}))
        environment |= {
            "CUFILE_ENV_PATH_JSON": str(cufile),
            "CUOBJ_ENV_PATH_JSON": str(cufile),
            "LD_LIBRARY_PATH": str(settings.cuobject),
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        command = [str(settings.serving_python), "-m", "kvlab.emulator.bench_client", "nixl"]
    else:
        command = [sys.executable, "-m", "kvlab.emulator.bench_client", "python"]
    return Peer(stack.enter_context(process(command, stdin=subprocess.PIPE, env=environment)), job)


def _one_sided(settings: Settings, folder: Path, peer: Peer, say: Callable[[str], None]) -> dict[str, Series]:
    local = mmap.mmap(-1, LARGE)
    here = ctypes.addressof(ctypes.c_char.from_buffer(local))
    ctypes.memset(here, 1, LARGE)
    series = {name: Series() for name in ("rdma_put_32MiB", "rdma_get_32MiB", "rdma_get_1MiB")}
    for key, size in (("large", LARGE), ("medium", MEDIUM)):
        peer.seconds("write", key, size)
        peer.seconds("read", key, size)
    for name, found in series.items():
        say(name)
        op, key, size = "read", "large", LARGE
        if "put" in name:
            op = "write"
        if "1MiB" in name:
            key, size = "medium", MEDIUM
        repeat = 50 if size == MEDIUM else 1

        def transfers(op: str = op, key: str = key, size: int = size, repeat: int = repeat) -> float:
            return sum(peer.seconds(op, key, size) for _ in range(repeat)) / repeat

        def floor(op: str = op, size: int = size) -> None:
            if op == "read":
                bench_floor.one_sided_get(peer.pid, here, peer.address, size)
            else:
                bench_floor.one_sided_put(peer.pid, here, peer.address, size, folder)

        for _ in range(settings.rounds + 1):
            # The emulator too removes what is replaced after it has answered.
            (folder / "object").unlink(missing_ok=True)
            found.take("floor", floor)
            found.take("emulator", transfers)
    return series


def _listing(client: Any, count: int, say: Callable[[str], None]) -> float:
    say(f"listing {count:,} objects")
    client.create_bucket(Bucket="listed")
    for number in range(count):
        client.put_object(Bucket="listed", Key=f"key/{number:06d}", Body=b"")
    start = time.perf_counter()
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="listed")
    shown = sum(len(page.get("Contents", [])) for page in pages)
    if shown != count:
        raise KvlabError(f"the listing shows {shown} of {count} objects")
    return time.perf_counter() - start


def _server_seconds(log: Path) -> float:
    """The emulator's own share of that listing: most of the time boto3 reads XML."""
    records = read_log(log)
    return (
        sum(float(str(r["duration_ms"])) for r in records if r["bucket"] == "listed" and r["op"] in LISTS)
        / 1000
    )


def resident(pid: int) -> int:
    """Resident memory of a process in bytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def _result(settings: Settings, series: dict[str, Series]) -> dict[str, Any]:
    medium = series["rdma_get_1MiB"].median("emulator")
    return {
        "simulated": True,
        "cpus": os.cpu_count(),
        "rounds": settings.rounds,
        "one_sided_client": "nixl" if settings.serving_python else "python",
        "ratios": {name: _rounded(series[name].over("floor", "emulator")) for name in TARGETS},
        "vs_moto": {
            name: _rounded(series[name].over("moto", "emulator"))
            for name in TARGETS
            if name.startswith("http")
        },
        "milliseconds": {
            name: {who: round(statistics.median(v) * 1000, 3) for who, v in found.seconds.items()}
            for name, found in series.items()
        },
        "rdma_get_1MiB_per_second": round(1 / medium, 1) if medium else None,
        "stored_gib": settings.stored_gib,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def misses(result: dict[str, Any]) -> list[str]:
    """What falls short of the issue's figures, in words; empty when nothing does."""
    found = [
        f"{name} is {result['ratios'][name]} of its floor, wanted {wanted}"
        for name, wanted in TARGETS.items()
        if result["ratios"][name] is not None and result["ratios"][name] < wanted
    ]
    found += [
        f"{name} runs at {ratio} of moto's rate"
        for name, ratio in result["vs_moto"].items()
        if ratio is not None and ratio <= 1
    ]
    if result["rdma_get_1MiB_per_second"] < MIN_RDMA_GETS_PER_SECOND:
        found.append(f"{result['rdma_get_1MiB_per_second']} one-sided GETs of 1 MiB per second, wanted 450")
    if result["list_10000_seconds"] >= MAX_LIST_SECONDS:
        found.append(f"listing takes {result['list_10000_seconds']} s, wanted under 2")
    if result["resident_mb"] >= MAX_RESIDENT_MB:
        found.append(f"resident memory is {result['resident_mb']} MB, wanted under 250")
    return found


def find_moto() -> Path | None:
    """moto_server on the path, or none."""
    found = shutil.which("moto_server")
    return Path(found) if found else None
