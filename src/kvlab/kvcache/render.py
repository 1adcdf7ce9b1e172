"""Renders a serving profile: environment, vLLM's and LMCache's arguments, lmcache.yaml, cufile.json.

Pure: a `ProfileSpec` in, file contents out. This is the one place that knows how each setting is spelt for
each version. The MP-mode commands are those measured in facts/local_stack.md; the in-process files follow
facts/kv_bench.md section 4 and facts/stacks.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import yaml

from kvlab.errors import KvlabError
from kvlab.kvcache import epoch
from kvlab.kvcache.geometry import Geometry
from kvlab.kvcache.profile import ProfileSpec, RenderedFile, RenderedProfile
from kvlab.kvcache.versions import release

MIN_POOL = 512
SLOTS_PER_FILE = 64
POOL_REQUESTS = 32
"""Longest requests that the static pool of MP mode has slots for; a TTFT plan stores fewer."""
GIB = 1024**3

_VLLM_KV_DTYPE = {"bf16": "bfloat16", "fp16": "float16", "fp8": "fp8"}


def profile(spec: ProfileSpec) -> RenderedProfile:
    """Render every file of a profile directory.

    Raises:
        KvlabError: the spec is inconsistent, or a value cannot be carried by an environment file.
    """
    spec.check()
    geometry = spec.geometry()
    files = {
        "env": RenderedFile(_env_file(environment(spec))),
        "vllm.args": RenderedFile(_json(vllm_args(spec))),
        "profile.json": RenderedFile(_json(facts(spec, geometry))),
    }
    if spec.engine != "none":
        secret = {"AWS_ACCESS_KEY_ID": spec.access_key, "AWS_SECRET_ACCESS_KEY": spec.secret_key}
        files["secret.env"] = RenderedFile(_env_file(secret), mode=0o600, secret=True)
    if _uses_cufile(spec):
        content = _json(cufile(spec))
        files["cufile.json"] = RenderedFile(content)
        files["cuobj.json"] = RenderedFile(content)
    if spec.mode == "mp":
        files["lmcache.args"] = RenderedFile(_json(lmcache_args(spec, geometry)))
    elif spec.mode == "in-process":
        files["lmcache.yaml"] = RenderedFile(yaml.safe_dump(lmcache_yaml(spec, geometry), sort_keys=False))
    return RenderedProfile(files)


def environment(spec: ProfileSpec) -> dict[str, str]:
    """The non-secret environment of the serving processes."""
    env = {
        # Chunk keys are chains of Python's hash(): every process must use the same seed.
        "PYTHONHASHSEED": "0",
        "LMCACHE_TRACK_USAGE": "false",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if spec.model.startswith("/"):
        env["HF_HUB_OFFLINE"] = "1"
    if spec.device == "cpu":
        env["VLLM_CPU_KVCACHE_SPACE"] = str(spec.cpu_kvcache_gib)
        # By itself vLLM leaves one core idle, and another with a KV connector, unless there would be none left: on two
        # cores the baseline computed with one, and all other profiles with both.
        env["VLLM_CPU_NUM_OF_RESERVED_CPU"] = "0"
    if spec.library_dirs:
        env["LD_LIBRARY_PATH"] = ":".join(spec.library_dirs)
    if spec.engine != "none":
        # ObjectScale does not know the checksums that AWS SDKs add by default since 2025.
        env["AWS_REQUEST_CHECKSUM_CALCULATION"] = "when_required"
        env["AWS_RESPONSE_CHECKSUM_VALIDATION"] = "when_required"
        env["AWS_DEFAULT_REGION"] = spec.region
        # Without it the SDK asks a cloud's metadata address for credentials when the keys are missing.
        env["AWS_EC2_METADATA_DISABLED"] = "true"
    if _uses_cufile(spec):
        # Client 1.4 reads the second name and takes the first only for settings, so both are set.
        env["CUFILE_ENV_PATH_JSON"] = f"{spec.directory}/cufile.json"
        env["CUOBJ_ENV_PATH_JSON"] = f"{spec.directory}/cuobj.json"
    if spec.mode == "in-process":
        env["LMCACHE_CONFIG_FILE"] = f"{spec.directory}/lmcache.yaml"
        if release(spec.vllm) >= (0, 24):
            # From 0.24 on vLLM picks its second model runner for some models; the in-process connector is
            # known to work with the first only (facts/stacks.md, section 2).
            env["VLLM_USE_V2_MODEL_RUNNER"] = "0"
    return env | dict(spec.extra_env)


def vllm_args(spec: ProfileSpec) -> list[str]:
    """Arguments after the Python executable that start vLLM's OpenAI server."""
    args = ["-m", "vllm.entrypoints.openai.api_server", "--model", spec.model]
    if spec.served_model_name:
        args += ["--served-model-name", spec.served_model_name]
    args += ["--host", spec.host, "--port", str(spec.api_port), "--max-model-len", str(spec.max_model_len)]
    if spec.tp > 1:
        args += ["--tensor-parallel-size", str(spec.tp)]
    if spec.pp > 1:
        args += ["--pipeline-parallel-size", str(spec.pp)]
    if spec.kv_dtype != "auto":
        if spec.kv_dtype not in _VLLM_KV_DTYPE:
            raise KvlabError(
                f"profile {spec.name}: vLLM keeps no KV cache in {spec.kv_dtype}; use bf16, fp16 or fp8."
            )
        args += ["--kv-cache-dtype", _VLLM_KV_DTYPE[spec.kv_dtype]]
    if spec.device == "cpu":
        args.append("--enforce-eager")
    # vLLM's own prefix cache would answer hot passes instead of the tier under test.
    args.append("--no-enable-prefix-caching")
    # Each reply then says how many prompt tokens came from a cache.
    args.append("--enable-prompt-tokens-details")
    if spec.mode != "none":
        args += ["--kv-transfer-config", json.dumps(kv_transfer_config(spec), separators=(",", ":"))]
    return args + list(spec.extra_vllm_args)


def kv_transfer_config(spec: ProfileSpec) -> dict[str, Any]:
    """vLLM's `--kv-transfer-config` value."""
    if spec.mode == "mp":
        return {
            "kv_connector": "LMCacheMPConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "lmcache.mp.host": f"tcp://{spec.host}",
                "lmcache.mp.port": spec.lmcache_port,
            },
        }
    return {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}


def lmcache_args(spec: ProfileSpec, geometry: Geometry) -> list[str]:
    """Arguments after the Python executable that start LMCache's MP server. No credential is among them."""
    if release(spec.lmcache) < (0, 5):
        raise KvlabError(
            f"profile {spec.name}: MP mode with LMCache {spec.lmcache} is not known to kvlab; use 0.5 or "
            "newer, or mode in-process."
        )
    args = ["-m", "lmcache.cli.main", "server", "--host", spec.host, "--port", str(spec.lmcache_port)]
    args += ["--http-host", spec.host, "--http-port", str(spec.lmcache_http_port)]
    args += ["--prometheus-port", str(spec.lmcache_metrics_port), "--chunk-size", str(spec.chunk_size)]
    # On a CPU the engine drives the transfer; the server refuses that unless it may choose the mode.
    args += ["--supported-transfer-mode", "auto"]
    if spec.shm_name:
        args += ["--shm-name", spec.shm_name]
    args += ["--l1-size-gb", f"{l1_size_gb(spec, geometry):g}", "--no-l1-use-lazy"]
    # The size of a stored object. With LMCache's default of 4 KiB a chunk becomes hundreds of them.
    args += ["--l1-align-bytes", str(geometry.mp_slot_bytes)]
    # Keeps hot passes out of LMCache's DRAM tier, so that they read the tier under test.
    args += ["--l2-store-policy", "skip_l1", "--eviction-policy", "LRU", "--max-workers", "1"]
    slots, params = pool_size(spec, geometry), backend_params(spec)
    if spec.name == "file":
        # A pool of files is held open; many objects to a file keep it under the limit of open files.
        params |= {"file_path": spec.file_path, "use_direct_io": str(spec.direct_io).lower()}
        params["file_size"] = str(SLOTS_PER_FILE * geometry.mp_slot_bytes)
        slots = -(-slots // SLOTS_PER_FILE)
    adapter = {
        "type": "nixl_store",
        "backend": nixl_backend(spec),
        "pool_size": slots,
        "backend_params": params,
    }
    return [*args, "--l2-adapter", json.dumps(adapter, separators=(",", ":"))]


def lmcache_yaml(spec: ProfileSpec, geometry: Geometry) -> dict[str, Any]:
    """LMCache's file for in-process mode, which differs between releases."""
    device = "cuda" if spec.name == "s3-rdma" or (spec.name == "file" and spec.gds) else "cpu"
    buffer_bytes = geometry.buffer_bytes_per_rank(spec.max_model_len)
    extra: dict[str, Any] = {
        "enable_nixl_storage": True,
        "nixl_backend": nixl_backend(spec),
        "nixl_pool_size": pool_size(spec, geometry),
        "nixl_async_put": False,
        "nixl_backend_params": backend_params(spec),
    }
    if len(spec.endpoints) > 1:
        extra["nixl_endpoint_list"] = list(spec.endpoints)
    if spec.name == "file":
        extra |= {"nixl_path": spec.file_path, "use_direct_io": spec.direct_io}
    out: dict[str, Any] = {
        "chunk_size": spec.chunk_size,
        # The default, true, would serve the second pass from DRAM.
        "local_cpu": False,
        "save_unfull_chunk": False,
        "max_local_cpu_size": _staging_gb(buffer_bytes, device),
        "nixl_buffer_device": device,
    }
    if device == "cuda" or release(spec.lmcache) < (0, 4, 7):
        # From 0.4.7 on a CPU buffer is the pool sized by max_local_cpu_size, and a size here is refused.
        out["nixl_buffer_size"] = buffer_bytes
    out["extra_config"] = extra
    return out


def nixl_backend(spec: ProfileSpec) -> str:
    """The NIXL plugin that carries the payload."""
    if spec.name == "file":
        return "GDS_MT" if spec.gds else "POSIX"
    return "OBJ"


def backend_params(spec: ProfileSpec) -> dict[str, str]:
    """NIXL's parameters: all strings, for NIXL knows no other type. Keys come from the environment."""
    if spec.name == "file":
        return {}
    params = {
        "bucket": spec.bucket,
        "endpoint_override": spec.endpoints[0],
        "scheme": urlsplit(spec.endpoints[0]).scheme,
        "region": spec.region,
        "use_virtual_addressing": "false",
        "req_checksum": "required",
        "resp_checksum": "required",
    }
    if spec.ca_bundle:
        params["ca_bundle"] = spec.ca_bundle
    if spec.engine == "dell":
        params |= {"accelerated": "true", "type": "dell"}
    return params


def cufile(spec: ProfileSpec) -> dict[str, Any]:
    """cufile.json, and from client 1.4 on cuobj.json: the same settings under two names."""
    return cuobject(spec.rdma_dev_addr_list, log_dir=spec.log_dir)


def cuobject(addresses: Sequence[str], peer_type: str = "dmabuf", log_dir: str = "") -> dict[str, Any]:
    """The settings of cuObject for a host's RDMA addresses; `peer_type` is dmabuf or nvidia_peermem."""
    logging = {"level": "INFO"} | ({"dir": log_dir} if log_dir else {})
    return {
        "logging": logging,
        "execution": {"parallel_io": False},
        "properties": {
            # Compatibility mode would let a transfer fall back without an error.
            "allow_compat_mode": False,
            "use_pci_p2pdma": True,
            "rdma_peer_type": peer_type,
            "rdma_dev_addr_list": list(addresses),
        },
    }


def pool_size(spec: ProfileSpec, geometry: Geometry) -> int:
    """Slots of the static pool in MP mode; 0 in process, which means keys that every instance shares."""
    if spec.pool_size is not None:
        return spec.pool_size
    if spec.mode == "in-process" and spec.name != "file":
        return 0
    pieces = geometry.mp_slots_per_chunk if spec.mode == "mp" else 1
    return max(MIN_POOL, POOL_REQUESTS * pieces * geometry.objects(spec.max_model_len + spec.chunk_size))


def l1_size_gb(spec: ProfileSpec, geometry: Geometry) -> float:
    """DRAM tier of the MP server in GiB: room for two of the longest requests on every rank, at least 1."""
    if spec.l1_size_gb is not None:
        return spec.l1_size_gb
    ranks = geometry.pp * geometry.saving_ranks_per_stage
    padded = geometry.mp_slots_per_chunk * geometry.mp_slot_bytes
    need = 2 * ranks * geometry.chunks(spec.max_model_len) * padded
    return float(max(1, -(-need // GIB)))


def facts(spec: ProfileSpec, geometry: Geometry) -> dict[str, Any]:
    """What tools need to know about a profile without reading its other files. Holds no secret."""
    objects = spec.engine != "none"
    return {
        "name": spec.name,
        "mode": spec.mode,
        "engine": spec.engine,
        "expected_path": spec.expected_path,
        "simulated": spec.simulated,
        "stack": {"name": spec.stack, "vllm": spec.vllm, "lmcache": spec.lmcache, "nixl": spec.nixl},
        "model": spec.model,
        "served_model_name": spec.served_model_name or spec.model,
        "model_config": dict(spec.model_config),
        "max_model_len": spec.max_model_len,
        "device": spec.device,
        "tp": spec.tp,
        "pp": spec.pp,
        "host": spec.host,
        "ports": {
            "api": spec.api_port,
            "lmcache": spec.lmcache_port,
            "lmcache_http": spec.lmcache_http_port,
            "lmcache_metrics": spec.lmcache_metrics_port,
        },
        "endpoint": spec.endpoints[0] if objects else None,
        "endpoints": list(spec.endpoints) if objects else [],
        "bucket": spec.bucket if objects else None,
        "file_path": spec.file_path if spec.name == "file" else None,
        "direct_io": spec.direct_io if spec.name == "file" else None,
        "shm_name": (spec.shm_name or None) if spec.mode == "mp" else None,
        "chunk_size": geometry.chunk_size,
        "chunk_bytes": geometry.object_bytes,
        # What one object in the store holds, and how many of them one chunk of one rank becomes.
        "slot_bytes": geometry.mp_slot_bytes if spec.mode == "mp" else geometry.object_bytes,
        "slots_per_chunk": geometry.mp_slots_per_chunk if spec.mode == "mp" else 1,
        "bytes_per_token": geometry.bytes_per_token,
        "kv_dtype": geometry.kv_dtype,
        "buffer_bytes": geometry.buffer_bytes_per_rank(spec.max_model_len),
        "pool_size": None if spec.mode == "none" else pool_size(spec, geometry),
        "epoch": epoch.of(spec, geometry),
    }


def _uses_cufile(spec: ProfileSpec) -> bool:
    return spec.engine == "dell" or (spec.name == "file" and spec.gds)


def _staging_gb(buffer_bytes: int, device: str) -> float:
    """LMCache's CPU pool in GiB: an engine step passes through it; with a CPU buffer the whole request."""
    need = buffer_bytes if device == "cpu" else buffer_bytes // 4
    return float(max(5, -(-need * 5 // (4 * GIB))))


def _json(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"


def _env_file(values: Mapping[str, str]) -> str:
    """KEY=VALUE lines that systemd's EnvironmentFile and a plain split at the first '=' read alike."""
    lines = []
    for key, value in values.items():
        if value != value.strip() or any(c in value for c in "\n\r\0\"'\\"):
            raise KvlabError(
                f"{key} has a quote, backslash, line break or outer space; an environment file cannot."
            )
        lines.append(f"{key}={value}\n")
    return "".join(lines)
