"""Faults of a profile's configuration: a copy of the running profile's folder, edited, and judged by the doctor."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvlab.drills.bench import Bench
from kvlab.drills.drill import Drill, Origin, Scene, Switch

Edit = Callable[[Path], None]
_STAGED = "a copy of the running profile's files, edited: "


def _args(file: str, change: Callable[[list[str]], None]) -> Edit:
    """Change the arguments of one program."""

    def edit(folder: Path) -> None:
        path = folder / file
        args = json.loads(path.read_text())
        change(args)
        path.write_text(json.dumps(args))

    return edit


def _without(file: str, option: str, values: int = 1) -> Edit:
    def change(args: list[str]) -> None:
        at = args.index(option)
        del args[at : at + 1 + values]

    return _args(file, change)


def _with(file: str, option: str, value: str) -> Edit:
    def change(args: list[str]) -> None:
        if option in args:
            args[args.index(option) + 1] = value
        else:
            args += [option, value]

    return _args(file, change)


def _adapter(**changes: Any) -> Edit:
    """Change the L2 adapter; a value of None removes its key. Keys of back end parameters are named params_x."""

    def change(args: list[str]) -> None:
        at = args.index("--l2-adapter") + 1
        adapter = json.loads(args[at])
        for name, value in changes.items():
            place = adapter["backend_params"] if name.startswith("params_") else adapter
            key = name.removeprefix("params_")
            if value is None:
                place.pop(key)
            else:
                place[key] = value
        args[at] = json.dumps(adapter)

    return _args("lmcache.args", change)


def _profile(edit: Edit) -> Callable[[Bench], Scene]:
    """Topic `config` of a copy of the profile, fresh at each look."""

    def scene(bench: Bench) -> Scene:
        switch = Switch()

        def look() -> dict[str, Any]:
            with tempfile.TemporaryDirectory(prefix="kvlab-drill-") as folder:
                copied = Path(shutil.copytree(str(bench.about["dir"]), f"{folder}/{bench.profile}"))
                if switch.on:
                    edit(copied)
                found = bench.look("profile", profile_dir=str(copied))
                return {"config": found["config"]}

        return Scene(look, switch.thrown)

    return scene


def _cufile(**changes: Any) -> Callable[[Bench], Scene]:
    """Topic `gds` of a cufile.json of the drill's own, good but for `changes`."""
    good = {"rdma_dev_addr_list": ["127.0.0.1"], "allow_compat_mode": False, "rdma_peer_type": "dmabuf"}

    def scene(bench: Bench) -> Scene:
        switch = Switch()

        def look() -> dict[str, Any]:
            with tempfile.TemporaryDirectory(prefix="kvlab-drill-") as folder:
                file = Path(folder, "cufile.json")
                file.write_text(json.dumps({"properties": {**good, **(changes if switch.on else {})}}))
                return bench.look("gds", cufile=str(file), cufile_log=f"{folder}/cufile.log")

        return Scene(look, switch.thrown)

    return scene


def _drill(
    name: str,
    breaks: str,
    staged: str,
    origin: Origin,
    reference: str,
    expects: str,
    edit: Edit,
    *,
    ci: bool = False,
) -> Drill:
    return Drill(
        name, "scratch", breaks, _STAGED + staged, origin, reference, expects, _profile(edit), ci=ci,
        needs=("a running profile with LMCache",),
    )  # fmt: skip


def _nic(name: str, breaks: str, origin: Origin, reference: str, expects: str, **changes: Any) -> Drill:
    staged = f"a cufile.json of the drill's own: {', '.join(changes)} changed"
    return Drill(name, "scratch", breaks, staged, origin, reference, expects, _cufile(**changes))


DRILLS = (
    _drill(
        "vllm-prefix-cache", "vLLM's own prefix cache answers hot passes before the tier is asked",
        "--no-enable-prefix-caching removed", "field report", "facts/kv_bench.md 0, fact 5", "VLLM001",
        _without("vllm.args", "--no-enable-prefix-caching", 0),
    ),
    _drill(
        "dram-tier-answers", "LMCache keeps chunks in its DRAM tier, so hot passes do not read the store",
        "--l2-store-policy removed", "field report", "facts/kv_bench.md 0, fact 4", "LMC108",
        _without("lmcache.args", "--l2-store-policy"),
    ),
    _drill(
        "buffer-too-small", "the buffer holds less than the longest request",
        "--l1-size-gb 0.03", "field report", "facts/kv_bench.md 0, fact 9", "LMC109",
        _with("lmcache.args", "--l1-size-gb", "0.03"),
    ),
    _drill(
        "pool-too-small", "the pool has fewer slots than the longest request has chunks",
        "pool_size 8", "field report", "facts/local_stack.md", "LMC109", _adapter(pool_size=8),
    ),
    _drill(
        "chunk-cut-to-pages", "a chunk is cut into objects of 4 KiB",
        "--l1-align-bytes removed", "field report", "ROCm/rocm-aic pull request 86", "LMC107",
        _without("lmcache.args", "--l1-align-bytes"),
    ),
    _drill(
        "wrong-transfer-mode", "LMCache has no handler for the mode in which a CPU's vLLM asks",
        "--supported-transfer-mode removed: LMCache's default", "field report", "facts/local_stack.md", "LMC113",
        _without("lmcache.args", "--supported-transfer-mode"), ci=True,
    ),
    _drill(
        "no-second-tier", "LMCache was given no second tier, so nothing is ever stored",
        "--l2-adapter removed", "thought up here", "facts/kv_bench.md 4.3", "LMC108",
        _without("lmcache.args", "--l2-adapter"),
    ),
    _drill(
        "unknown-option", "an option is mistyped, and LMCache goes on without it",
        "--l1-align-byte in place of --l1-align-bytes", "field report", "LMCache/LMCache issue 1449", "LMC102",
        _args("lmcache.args", lambda args: args.__setitem__(args.index("--l1-align-bytes"), "--l1-align-byte")),
    ),
    _drill(
        "s3-checksums-refused", "the client adds checksums that the store refuses and RDMA cannot carry",
        "req_checksum: supported", "field report", "boto/boto3 issue 4392", "NIXL017",
        _adapter(params_req_checksum="supported"),
    ),
    _drill(
        "no-endpoint", "no endpoint is named, so the SDK goes to Amazon's",
        "endpoint_override removed", "field report", "facts/provisioning.md 2.8b", "NIXL015",
        _adapter(params_endpoint_override=None),
    ),
    _drill(
        "unknown-back-end", "NIXL has no back end of that name",
        "backend: OBJECT", "field report", "LMCache/LMCache pull request 4740", "LMC106", _adapter(backend="OBJECT"),
    ),
    _nic(
        "nic-address-missing", "cufile.json names no NIC, so the client quietly goes over HTTP", "field report",
        "issue 8; facts/provisioning.md after 3 (hearsay there)", "GDS009", rdma_dev_addr_list=[],
    ),
    _nic(
        "nic-of-another-host", "cufile.json was copied from another host, with its NIC's address", "thought up here",
        "facts/provisioning.md 2.8", "GDS009", rdma_dev_addr_list=["198.51.100.99"],
    ),
    _nic(
        "compatibility-mode", "cuFile may fall back to bounce copies without an error", "field report",
        "rapidsai/cudf issue 13651", "GDS003", allow_compat_mode=True,
    ),
    _nic(
        "peer-memory-missing", "GPU memory is to be registered by a kernel module that is not loaded", "field report",
        "NVIDIA/gds-nvidia-fs issue 4", "GDS007", rdma_peer_type="nvidia-peermem",
    ),
)  # fmt: skip
