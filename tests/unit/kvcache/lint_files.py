"""Good configuration files and ways to spoil them, for the tests of the linter."""

from __future__ import annotations

import json
from typing import Any

import yaml

from kvlab.kvcache import knownkeys, lint, render
from kvlab.kvcache.profile import ProfileSpec

GOOD_ENV = {
    "PYTHONHASHSEED": "0",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "CUFILE_ENV_PATH_JSON": "/x/cufile.json",
    "CUOBJ_ENV_PATH_JSON": "/x/cuobj.json",
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    "LMCACHE_CONFIG_FILE": "/x/lmcache.yaml",
}
P = ("extra_config", "nixl_backend_params")


def rendered(in_process: dict[str, Any], **changes: Any) -> dict[str, Any]:
    spec = ProfileSpec.from_mapping(in_process | changes)
    out: dict[str, Any] = yaml.safe_load(render.profile(spec).files["lmcache.yaml"].content)
    return out


def put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(values))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return copy


def context(lmcache: str = "0.5.3", **changes: Any) -> lint.Context:
    known: dict[str, Any] = {
        "nixl": "1.5.1",
        "vllm": "0.25.1",
        "env": GOOD_ENV,
        "profile": "s3-rdma",
    } | changes
    return lint.Context(lmcache=knownkeys.lmcache(lmcache), **known)


def ids(text: str, ctx: lint.Context, name: str = "lmcache.yaml") -> set[str]:
    return {finding.id for finding in lint.lint(text, name, ctx)}


def judged(values: dict[str, Any], path: tuple[str, ...], value: Any, ctx: lint.Context) -> set[str]:
    """Ids that appear when one key is changed, over those that the good file has."""
    before = ids(yaml.safe_dump(values), ctx)
    return ids(yaml.safe_dump(put(values, path, value)), ctx) - before


def arguments(values: dict[str, Any], file: str, old: str, new: str | None) -> str:
    args = json.loads(render.profile(ProfileSpec.from_mapping(values)).files[file].content)
    if new is None:
        at = args.index(old)
        value = at + 1 < len(args) and not args[at + 1].startswith("--")
        return json.dumps(args[:at] + args[at + (2 if value else 1) :])
    return json.dumps([a.replace(old, new) for a in args])
