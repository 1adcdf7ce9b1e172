"""Transfers through NIXL's own Python API (1.5.1), with what DONE does not prove: content, guards, plugin.

Job: {"engine": "standard"|"dell", "endpoint", "region", "bucket", "secrets_file",
      "params": {NIXL's own parameters; left out: those of the engine}, "drop": [parameter, ...],
      "transfers": [{"op": "write"|"read", "key", "size", "seed"}, ...], "batch": 1, "at_once": 1, "timeout_s": 60}

"gpu": N puts the buffers into that GPU's memory (NIXL's VRAM), where they otherwise are host memory (DRAM).
"addresses": [IP, ...] are the NICs to use, in place of those in the host's cufile.json.

A read may name "offset" (its first byte in the object, 0) with "object_size", and "others": {what to call it: seed},
the contents that a fault might bring instead. Up to `batch` transfers of one direction in a row go as one NIXL
transfer, and up to `at_once` of those are under way together. {"jobs": [...]} does several jobs in one process, which
starts once: {"runs": [...]}, in their order.

The engine takes HTTP success for transfer success and never reads an RDMA reply header, so the destination of
a read is poisoned first, and the bytes on both sides of every buffer are guards that must not change.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import json
import os
import shutil
import socket
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kvlab.errors import KvlabError
from kvlab.probes import Facts, Job, content, cuobject_library, document, elf, main, obj_plugin, use_key_pair
from kvlab.probes.gpu_memory import Gpu

GUARD_BYTES = 4096  # one page on each side: an engine that rounds up to a page is caught
_GUARD = b"\x5a" * GUARD_BYTES
_DEVICES = itertools.count()  # NIXL finds an object's key by a number, which must not be given twice


def backend_params(job: Job) -> dict[str, str]:
    """NIXL's parameters for the job, values as strings, with its bucket and without those named in `drop`.

    The secret is not among them: the SDK takes it from the environment.
    """
    if job["engine"] not in ("standard", "dell"):
        raise KvlabError(f"Engine {job['engine']!r} is unknown; use standard or dell.")
    params = dict(job.get("params") or _default_params(job)) | {"bucket": job["bucket"]}
    return {k: v for k, v in params.items() if k not in job.get("drop", ())}


def _default_params(job: Job) -> dict[str, str]:
    accelerated = {"accelerated": "true", "type": "dell"} if job["engine"] == "dell" else {}
    return {
        "endpoint_override": job["endpoint"],
        "scheme": urlsplit(job["endpoint"]).scheme,
        "region": job.get("region", "us-east-1"),
        "use_virtual_addressing": "false",
        "req_checksum": "required",
        **accelerated,
    }


def missing_libraries(plugin: Path) -> list[str]:
    """DT_NEEDED names of `plugin` that neither its wheel nor the loader's path supplies.

    NIXL itself says only NIXL_ERR_NOT_FOUND.
    """
    shipped = {found.name for found in plugin.parents[2].glob("*nixl*/*.so*")}
    return [name for name in elf.read(plugin).needed if name not in shipped and not _loads(name)]


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def plugin_file() -> Path:
    """The OBJ plugin of the installed nixl wheel."""
    found = obj_plugin.find()
    if found is None:
        raise KvlabError("The nixl wheel holds no OBJ plugin; install nixl-cu13 1.5.0 or later.")
    return found


def _endpoint_answers(endpoint: str) -> str | None:
    """None when the endpoint accepts a connection; NIXL itself takes 26 s to notice a closed port."""
    url = urlsplit(endpoint)
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        socket.create_connection((url.hostname or "", port), timeout=5).close()
    except OSError as error:
        return f"{endpoint}: {error}"
    return None


def _error_types(bindings: Any) -> tuple[type[Exception], ...]:
    """NIXL's exceptions: each its own class, with no common base of theirs."""
    named = (v for name, v in vars(bindings).items() if name.startswith("nixl") and name.endswith("Error"))
    return tuple(value for value in named if isinstance(value, type) and issubclass(value, Exception))


class Buffer:
    """`size` bytes between two guards, in ordinary host memory (NIXL's DRAM kind)."""

    kind, device = "DRAM", 0

    def __init__(self, fill: bytes) -> None:
        self.size = len(fill)
        self.total = self.size + 2 * GUARD_BYTES
        self._raw = (ctypes.c_char * self.total).from_buffer_copy(_GUARD + fill + _GUARD)
        self.base = ctypes.addressof(self._raw)

    def held(self) -> bytes:
        """All its bytes, guards and all."""
        return bytes(self._raw)

    def release(self) -> None:
        """Give the memory back; nothing may be under way."""


class GpuBuffer(Buffer):
    """The same in the memory of a GPU (NIXL's VRAM kind)."""

    kind = "VRAM"

    def __init__(self, fill: bytes, gpu: Gpu) -> None:
        self.size, self.device, self._gpu = len(fill), gpu.number, gpu
        self.total = self.size + 2 * GUARD_BYTES
        self.base = gpu.allocate(self.total)
        gpu.write(self.base, _GUARD + fill + _GUARD)

    def held(self) -> bytes:
        """All its bytes, guards and all, copied to the host."""
        return self._gpu.read(self.base, self.total)

    def release(self) -> None:
        """Give the memory back; nothing may be under way."""
        self._gpu.free(self.base)


def use_addresses(addresses: list[str]) -> None:
    """Have cuObject use these NICs and no others: a copy of the host's settings with this list, for this process.

    Raises:
        KvlabError: the environment names no settings, or they cannot be read.
    """
    file = os.environ.get("CUOBJ_ENV_PATH_JSON") or os.environ.get("CUFILE_ENV_PATH_JSON") or ""
    try:
        settings = json.loads(Path(file).read_text())
        properties = settings["properties"]
    except (OSError, ValueError, KeyError) as error:
        raise KvlabError(
            f"cuObject's settings {file or '(no file is named)'} cannot be read: {error!r}."
        ) from error
    folder = tempfile.mkdtemp(prefix="kvlab-")
    atexit.register(shutil.rmtree, folder)
    own = Path(folder, "cufile.json")
    own.write_text(json.dumps({**settings, "properties": {**properties, "rdma_dev_addr_list": addresses}}))
    os.environ["CUFILE_ENV_PATH_JSON"] = os.environ["CUOBJ_ENV_PATH_JSON"] = str(own)


def run(job: Job) -> Facts:
    """Do the job, or each of its "jobs"."""
    if "jobs" not in job:
        return run_one(job)
    runs = [run_one(one) for one in job["jobs"]]
    marks = [one["simulated"] for one in runs]
    return document("nixl_roundtrip", any(marks) if any(marks) or None not in marks else None, runs=runs)


def run_one(job: Job) -> Facts:
    """Do the job's transfers in order; a transfer that fails is recorded, not raised."""
    gpu = Gpu(int(job["gpu"])) if job.get("gpu") is not None else None
    if job.get("addresses"):
        use_addresses(list(job["addresses"]))
    params = backend_params(job)
    base: Facts = {"engine": job["engine"], "backend_params": params, "endpoint": job["endpoint"]}
    base["cuobject"] = cuobject_library.collect("libcuobjclient.so.1")
    simulated = base["cuobject"]["simulated"] if job["engine"] == "dell" else None
    if gpu:
        base["gpu_memory"] = gpu.facts()
        simulated = simulated or base["gpu_memory"]["simulated"]
    plugin = plugin_file()

    from nixl._api import nixl_agent, nixl_agent_config, nixlBind

    # The bindings have loaded the libraries that the plugin shares with them; what fails now is missing.
    base["plugin"] = {
        "file": plugin.name,
        "load_error": obj_plugin.load_error(plugin),
        "missing": missing_libraries(plugin),
    }
    if base["plugin"]["load_error"]:
        return document("nixl_roundtrip", simulated, **base, backend_error="NIXL_ERR_NOT_FOUND", transfers=[])
    base["endpoint_error"] = _endpoint_answers(job["endpoint"])
    if base["endpoint_error"]:
        return document("nixl_roundtrip", simulated, **base, backend_error=None, transfers=[])

    use_key_pair(job["secrets_file"])
    errors = _error_types(nixlBind)
    agent = nixl_agent(f"kvlab-{uuid.uuid4().hex[:8]}", nixl_agent_config(backends=[]))
    base["plugin"]["mem_types"] = [str(m) for m in agent.get_plugin_mem_types("OBJ")]
    try:
        agent.create_backend("OBJ", params)
    except errors as error:
        return document("nixl_roundtrip", simulated, **base, backend_error=str(error), transfers=[])
    base["backend_mem_types"] = [str(m) for m in agent.get_backend_mem_types("OBJ")]
    timeout_s = float(job.get("timeout_s", 60))
    transfers: list[Facts] = []
    for window in _windows(job["transfers"], int(job.get("batch", 1)), int(job.get("at_once", 1))):
        flights = [_Flight(agent, specs, errors, gpu) for specs in window]
        deadline = time.monotonic() + timeout_s
        while any(flight.poll() for flight in flights) and time.monotonic() < deadline:
            time.sleep(0.0005)
        for flight in flights:
            transfers += flight.land(timeout_s)
    if gpu:
        gpu.close()
    return document("nixl_roundtrip", simulated, **base, backend_error=None, transfers=transfers)


def _windows(transfers: list[Facts], batch: int, at_once: int) -> Iterator[list[list[Facts]]]:
    """What is under way together: lists of batches, each of one direction, in the order of the job."""
    if batch < 1 or at_once < 1:
        raise KvlabError(f"batch {batch} and at_once {at_once} must be 1 or more.")
    for _, same in itertools.groupby(transfers, key=lambda spec: str(spec["op"])):
        row = list(same)
        batches = [row[i : i + batch] for i in range(0, len(row), batch)]
        yield from (batches[i : i + at_once] for i in range(0, len(batches), at_once))


def _expected(spec: Job, seed: int) -> bytes:
    """The bytes that the transfer of `spec` moves when the object's content is that of `seed`."""
    offset = int(spec.get("offset", 0))
    whole = content.content(seed, int(spec.get("object_size", offset + spec["size"])))
    return whole[offset : offset + spec["size"]]


class _Flight:
    """One NIXL transfer with a descriptor for each of its specs: posted when made, polled, landed with its facts."""

    def __init__(
        self, agent: Any, specs: list[Facts], errors: tuple[type[Exception], ...], gpu: Gpu | None
    ) -> None:
        self._agent, self._specs, self._errors = agent, specs, errors
        self._expected = [_expected(spec, spec["seed"]) for spec in specs]
        fills = [
            e if spec["op"] == "write" else content.poison(e)
            for spec, e in zip(specs, self._expected, strict=True)
        ]
        self._buffers = [GpuBuffer(fill, gpu) if gpu else Buffer(fill) for fill in fills]
        self._state, self._error = "ERR", None  # type: str, str | None
        self._registered: list[Any] = []
        self._handle: Any = None
        self._began = time.perf_counter()
        self._took: float | None = None
        try:
            self._post()
        except errors as error:
            self._fail(error)

    def _post(self) -> None:
        """Register the memory and the objects, and start; a number stands for each object key in NIXL's descriptors."""
        kind = self._buffers[0].kind
        memory = [(buffer.base, buffer.total, buffer.device, "") for buffer in self._buffers]
        self._registered.append(self._agent.register_memory(memory, kind, backends=["OBJ"]))
        numbers = [next(_DEVICES) for _ in self._specs]
        objects, local, remote = [], [], []
        for spec, buffer, number in zip(self._specs, self._buffers, numbers, strict=True):
            offset = int(spec.get("offset", 0))
            objects.append((0, offset + buffer.size, number, spec["key"]))
            local.append((buffer.base + GUARD_BYTES, buffer.size, buffer.device))
            remote.append((offset, buffer.size, number))
        self._registered.append(self._agent.register_memory(objects, "OBJ", backends=["OBJ"]))
        ends = self._agent.get_xfer_descs(local, kind), self._agent.get_xfer_descs(remote, "OBJ")
        operation = str(self._specs[0]["op"]).upper()
        self._handle = self._agent.initialize_xfer(operation, *ends, self._agent.name, backends=["OBJ"])
        self._began = time.perf_counter()
        self._state = self._agent.transfer(self._handle)

    def poll(self) -> bool:
        """Whether it is still under way."""
        if self._state != "PROC":
            return False
        try:
            self._state = self._agent.check_xfer_state(self._handle)
        except self._errors as error:
            self._fail(error)
        if self._state != "PROC":
            self._took = time.perf_counter() - self._began
        return self._state == "PROC"

    def _fail(self, error: Exception) -> None:
        self._state, self._error = "ERR", f"{type(error).__name__}: {error}"

    def land(self, timeout_s: float) -> list[Facts]:
        """Release everything; the facts of each transfer, its duration in seconds (that of the whole batch)."""
        took = time.perf_counter() - self._began if self._took is None else self._took
        state = self._state if self._state != "PROC" else f"PROC after {timeout_s:.0f} s"
        try:
            if self._handle is not None:
                self._agent.release_xfer_handle(self._handle)
            for registration in reversed(self._registered):
                self._agent.deregister_memory(registration, backends=["OBJ"])
        except self._errors as error:
            self._error = self._error or f"{type(error).__name__}: {error}"
        facts = [
            fact(spec, buffer, expected)
            | {"state": state, "error": self._error, "duration_s": took, "batch": len(self._specs)}
            for spec, buffer, expected in zip(self._specs, self._buffers, self._expected, strict=True)
        ]
        if state == self._state:  # what may still be written to is left alone
            for buffer in self._buffers:
                buffer.release()
        return facts


def fact(spec: Facts, buffer: Buffer, expected: bytes) -> Facts:
    """What the buffer of one transfer holds."""
    whole = buffer.held()
    held = whole[GUARD_BYTES : GUARD_BYTES + buffer.size]
    equal = held == expected
    others = {} if equal else {name: _expected(spec, seed) for name, seed in spec.get("others", {}).items()}
    return {
        **spec,
        "mem_type": buffer.kind,
        "equal": equal,
        "difference": content.difference(held, expected, others),
        "guards_ok": whole[:GUARD_BYTES] == _GUARD and whole[GUARD_BYTES + buffer.size :] == _GUARD,
        "expected_sha256": content.digest(expected),
        "buffer_sha256": content.digest(held),
    }


if __name__ == "__main__":
    main(run)
