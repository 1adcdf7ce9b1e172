"""Transfers through NIXL's own Python API (1.5.1), with what DONE does not prove: content, guards, plugin.

Job: {"engine": "standard"|"dell", "endpoint", "region", "bucket", "secrets_file",
      "params": {NIXL's own parameters; left out: those of the engine}, "drop": [parameter, ...],
      "transfers": [{"op": "write"|"read", "key", "size", "seed"}, ...], "timeout_s": 60}

The engine takes HTTP success for transfer success and never reads an RDMA reply header, so the destination of
a read is poisoned first, and the bytes on both sides of every buffer are guards that must not change.
"""

from __future__ import annotations

import ctypes
import socket
import time
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kvlab.errors import KvlabError
from kvlab.probes import Facts, Job, content, cuobject_library, document, elf, main, obj_plugin, use_key_pair

GUARD_BYTES = 4096  # one page on each side: an engine that rounds up to a page is caught
_GUARD = b"\x5a" * GUARD_BYTES


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

    def __init__(self, fill: bytes) -> None:
        self.size = len(fill)
        self._raw = (ctypes.c_char * (self.size + 2 * GUARD_BYTES))()
        self.whole = memoryview(self._raw).cast("B")
        self.whole[:GUARD_BYTES] = _GUARD
        self.payload[:] = fill
        self.whole[GUARD_BYTES + self.size :] = _GUARD
        self.base = ctypes.addressof(self._raw)
        self.total = len(self.whole)

    @property
    def payload(self) -> memoryview:
        return self.whole[GUARD_BYTES : GUARD_BYTES + self.size]

    def guards_ok(self) -> bool:
        return self.whole[:GUARD_BYTES] == _GUARD and self.whole[GUARD_BYTES + self.size :] == _GUARD


def run(job: Job) -> Facts:
    """Do the job's transfers in order; a transfer that fails is recorded, not raised."""
    params = backend_params(job)
    base: Facts = {"engine": job["engine"], "backend_params": params, "endpoint": job["endpoint"]}
    base["cuobject"] = cuobject_library.collect("libcuobjclient.so.1")
    simulated = base["cuobject"]["simulated"] if job["engine"] == "dell" else None
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
    transfers = [_transfer(agent, t, i, timeout_s, errors) for i, t in enumerate(job["transfers"])]
    return document("nixl_roundtrip", simulated, **base, backend_error=None, transfers=transfers)


def _transfer(
    agent: Any, spec: Job, device: int, timeout_s: float, errors: tuple[type[Exception], ...]
) -> Facts:
    """One transfer and all that can be said about it; durations in seconds."""
    expected = content.content(spec["seed"], spec["size"])
    buffer = Buffer(expected if spec["op"] == "write" else content.poison(expected))
    fact: Facts = {**spec, "mem_type": "DRAM", "state": "ERR", "error": None}
    began = time.perf_counter()
    try:
        fact["state"] = _move(agent, spec, buffer, device, timeout_s)
    except errors as error:
        fact["error"] = f"{type(error).__name__}: {error}"
    fact["duration_s"] = time.perf_counter() - began
    return fact | {
        "equal": buffer.payload == expected,
        "guards_ok": buffer.guards_ok(),
        "expected_sha256": content.digest(expected),
        "buffer_sha256": content.digest(buffer.payload),
    }


def _move(agent: Any, spec: Job, buffer: Buffer, device: int, timeout_s: float) -> str:
    """Register, transfer, poll to the end or to `timeout_s`; `device` is NIXL's number for the object key."""
    memory = agent.register_memory([(buffer.base, buffer.total, 0, "")], "DRAM", backends=["OBJ"])
    stored = agent.register_memory([(0, buffer.size, device, spec["key"])], "OBJ", backends=["OBJ"])
    local = agent.get_xfer_descs([(buffer.base + GUARD_BYTES, buffer.size, 0)], "DRAM")
    remote = agent.get_xfer_descs([(0, buffer.size, device)], "OBJ")
    handle = agent.initialize_xfer(spec["op"].upper(), local, remote, agent.name, backends=["OBJ"])
    try:
        state: str = agent.transfer(handle)
        deadline = time.monotonic() + timeout_s
        while state == "PROC" and time.monotonic() < deadline:
            time.sleep(0.0005)
            state = agent.check_xfer_state(handle)
        return state if state != "PROC" else f"PROC after {timeout_s:.0f} s"
    finally:
        agent.release_xfer_handle(handle)
        agent.deregister_memory(stored, backends=["OBJ"])
        agent.deregister_memory(memory, backends=["OBJ"])


if __name__ == "__main__":
    main(run)
