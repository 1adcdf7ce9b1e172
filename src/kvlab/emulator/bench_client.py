"""The clients of one-sided transfers that the benchmark times. Each is a process of its own:

    python -m kvlab.emulator.bench_client nixl|python

It reads one JSON line on standard input (endpoint, bucket, access_key, secret_key, size, and for nixl what its
environment does not say), prints {"pid", "address"} of its buffer, then for each line {"op": "read"|"write", "key",
"size"} prints {"seconds"}. `nixl` runs in the serving venv, with NIXL's unmodified Dell engine and the software
cuObject; it is what the issue's figures are about. `python` needs neither: botocore signs, and the buffer is
registered as native/cuobject/PROTOCOL.md says.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_POLL_S = 200e-6  # a client that asks without a pause takes one of two cores from the emulator
Transfer = Callable[[str, str, int], None]


def main(kind: str) -> None:
    """Serve transfers until standard input ends."""
    job = json.loads(sys.stdin.readline())
    # Page-aligned, as LMCache's buffers are.
    buffer = mmap.mmap(-1, job["size"])
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    ctypes.memset(address, 0x5A, job["size"])
    with (_nixl if kind == "nixl" else _python)(job, address) as transfer:
        print(json.dumps({"pid": os.getpid(), "address": address}), flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            start = time.perf_counter()
            transfer(order["op"], order["key"], order["size"])
            print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)


@contextlib.contextmanager
def _nixl(job: dict[str, Any], address: int) -> Iterator[Transfer]:
    os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = (
        job["access_key"],
        job["secret_key"],
    )
    from nixl._api import nixl_agent, nixl_agent_config

    agent = nixl_agent("bench", nixl_agent_config(backends=[]))
    parameters = {
        "endpoint_override": job["endpoint"],
        "scheme": "http",
        "region": "us-east-1",
        "bucket": job["bucket"],
        "use_virtual_addressing": "false",
        "req_checksum": "required",
        "accelerated": "true",
        "type": "dell",
    }
    agent.create_backend("OBJ", parameters)
    memory = agent.register_memory([(address, job["size"], 0, "buffer")], "DRAM", backends=["OBJ"])
    prepared: dict[tuple[str, str], Any] = {}

    def prepare(op: str, key: str, size: int) -> Any:
        number = len(prepared)
        agent.register_memory([(0, size, number, key)], "OBJ", backends=["OBJ"])
        local = agent.get_xfer_descs([(address, size, 0)], "DRAM")
        remote = agent.get_xfer_descs([(0, size, number)], "OBJ")
        return agent.initialize_xfer(op.upper(), local, remote, "bench", backends=["OBJ"])

    def transfer(op: str, key: str, size: int) -> None:
        # A transfer is prepared once and posted again and again, as nixlbench does.
        if (op, key) not in prepared:
            prepared[op, key] = prepare(op, key, size)
        handle = prepared[op, key]
        state = agent.transfer(handle)
        while state not in ("DONE", "ERR"):
            time.sleep(_POLL_S)
            state = agent.check_xfer_state(handle)
        if state != "DONE":
            raise RuntimeError(f"{op} of {key} ended as {state}")

    yield transfer
    for handle in prepared.values():
        agent.release_xfer_handle(handle)
    agent.deregister_memory(memory)


_GID = bytes(10) + b"\xff\xff" + bytes([127, 0, 0, 1])
_SLOTS = 65536
_PR_SET_PTRACER = 0x59616D61


@contextlib.contextmanager
def _python(job: dict[str, Any], address: int) -> Iterator[Transfer]:
    import http.client
    from urllib.parse import urlsplit

    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
    table = Path(f"/dev/shm/kvlab-cuobj-{os.getpid()}")
    fd = os.open(table, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    host = urlsplit(job["endpoint"])
    connection = http.client.HTTPConnection(host.hostname or "", host.port)
    signer = S3SigV4Auth(Credentials(job["access_key"], job["secret_key"]), "s3", "us-east-1")

    def transfer(op: str, key: str, size: int) -> None:
        path = f"/{job['bucket']}/{key}"
        token = f"{address:016x}:{size:08x}:00010001:0000:{os.getpid():06x}:1:{_GID.hex()}"
        headers = {"x-rdma-info": token} | ({"Range": f"bytes=0-{size - 1}"} if op == "read" else {})
        request = AWSRequest("GET" if op == "read" else "PUT", job["endpoint"] + path, headers=headers)
        signer.add_auth(request)
        connection.request(request.method, path, headers=dict(request.headers.items()))
        reply = connection.getresponse()
        reply.read()
        if reply.headers.get("x-amz-rdma-bytes-transferred") != str(size):
            raise RuntimeError(f"{op} of {key} ended as {reply.status}")

    try:
        os.ftruncate(fd, 4096 + _SLOTS * 32)
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, lock)
        os.pwrite(fd, struct.pack("<8sIIII16s", b"KVLABCU1", _SLOTS, os.getpid(), 0xFFEEDDCC, 0, _GID), 0)
        os.pwrite(fd, struct.pack("<QQIIQ", address, job["size"], 0x00010001, 1, 0), 4096 + 32)
        yield transfer
    finally:
        os.close(fd)
        table.unlink()


if __name__ == "__main__":
    main(sys.argv[1])
