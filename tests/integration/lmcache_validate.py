"""Runs in the serving venv: what LMCache's own classes say to some lmcache.yaml files. JSON in, JSON out.

Input: {"files": [paths], "package": folder that holds another `lmcache` package, or null for the installed one,
"geometry": {"layers", "kv_heads", "head_size", "chunk"}}. Output: the version and, per file, "ok" or the exception.
A file is loaded, validated, and turned into the storage back end's own configuration, which is as far as LMCache
goes before it needs a device.
"""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any


def metadata(geometry: dict[str, int]) -> Any:
    """The engine metadata of one rank; its constructor differs between releases."""
    import torch
    from lmcache.v1.metadata import LMCacheMetadata

    shape = (geometry["layers"], 2, geometry["chunk"], geometry["kv_heads"], geometry["head_size"])
    values = {
        "model_name": "lab/model",
        "world_size": 1,
        "local_world_size": 1,
        "worker_id": 0,
        "local_worker_id": 0,
        "kv_dtype": torch.bfloat16,
        "kv_shape": shape,
        "role": "worker",
    }
    wanted = inspect.signature(LMCacheMetadata).parameters
    return LMCacheMetadata(**{name: value for name, value in values.items() if name in wanted})


def judge(file: str, geometry: dict[str, int]) -> str:
    """Either ok, or what LMCache raises."""
    from lmcache.v1.config import LMCacheEngineConfig
    from lmcache.v1.storage_backend.nixl_storage_backend import NixlStorageConfig

    try:
        config = LMCacheEngineConfig.from_file(file)
        config.validate()
        NixlStorageConfig.from_cache_engine_config(config, metadata(geometry))
    except (AssertionError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "ok"


def main() -> None:
    out = sys.stdout
    sys.stdout = sys.stderr
    order = json.load(sys.stdin)
    if order["package"]:
        sys.path.insert(0, order["package"])
    import lmcache

    verdicts = [judge(file, order["geometry"]) for file in order["files"]]
    json.dump({"from": lmcache.__file__, "verdicts": verdicts}, out)


if __name__ == "__main__":
    main()
