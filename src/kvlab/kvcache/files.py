"""Reads files for the linter: the I/O that the command and the Ansible module share."""

from __future__ import annotations

import ipaddress
import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError
from kvlab.kvcache import knownkeys
from kvlab.kvcache.geometry import Geometry
from kvlab.kvcache.lint import Context, environment
from kvlab.kvcache.lint.document import MAX_BYTES
from kvlab.kvcache.modelconfig import preset
from kvlab.kvcache.versions import release


def read_text(name: str) -> tuple[str, int]:
    """A file's text and its permission bits.

    Raises:
        KvlabError: it is not there, not a regular file, not text, or too large for a configuration.
    """
    path = Path(name)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise KvlabError(f"{name} is not a regular file.")
        if status.st_size > MAX_BYTES:
            raise KvlabError(f"{name} has {status.st_size} bytes; that is no configuration file.")
        return path.read_text("utf-8"), stat.S_IMODE(status.st_mode)
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise KvlabError(f"{name} is not a text file.") from None
        reason = error.strerror if isinstance(error, OSError) else error
        raise KvlabError(f"{name} cannot be read: {reason}.") from None


def read_json_object(name: str) -> dict[str, Any]:
    """A JSON file that holds an object, such as config.json.

    Raises:
        KvlabError: it cannot be read, is something else, or gives a key twice.
    """
    text, _ = read_text(name)
    try:
        values = json.loads(text, object_pairs_hook=lambda pairs: _unique(name, pairs))
    except json.JSONDecodeError as error:
        raise KvlabError(f"{name} is not JSON: {error}.") from None
    except RecursionError:
        raise KvlabError(f"{name} is nested deeper than any configuration.") from None
    except ValueError:
        raise KvlabError(
            f"{name} holds a number of thousands of digits, which no configuration has."
        ) from None
    if not isinstance(values, dict):
        raise KvlabError(f"{name} is not a JSON object; give the model's config.json.")
    return values


def _unique(name: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise KvlabError(f"{name} gives {key} twice; remove one of the two.")
        values[key] = value
    return values


def context_of(
    *,
    lmcache: str,
    nixl: str,
    vllm: str | None = None,
    profile: str | None = None,
    model: str | None = None,
    tp: int = 1,
    chunk_size: int = 256,
    max_tokens: int | None = None,
    env_files: Sequence[str] = (),
    env: dict[str, str] | None = None,
    addresses: Sequence[str] = (),
) -> Context:
    """Build the linter's context; `model` is the path of a config.json or the name of a preset.

    Raises:
        KvlabError: a version is unknown, a file unreadable, or a number cannot be.
    """
    for version in (nixl, *([vllm] if vllm is not None else [])):
        release(version)
    geometry = None
    if model is not None:
        config = read_json_object(model) if model.endswith(".json") or Path(model).exists() else preset(model)
        geometry = Geometry.from_config(config, tp=tp, chunk_size=chunk_size)
    if max_tokens is not None:
        if geometry is None:
            raise KvlabError("--max-tokens needs --model: how many bytes a token takes depends on it.")
        geometry.chunks(max_tokens)
    if tp < 1:
        raise KvlabError(f"tp is {tp}; it must be positive.")
    values: dict[str, str] | None = None if env is None and not env_files else dict(env or {})
    exposed: dict[str, str] = {}
    for file in env_files:
        text, mode = read_text(file)
        assert values is not None
        found = environment.parse(text, file)
        values |= found
        if mode & 0o077:
            secrets = environment.SECRETS.intersection(name for name, value in found.items() if value)
            exposed |= dict.fromkeys(secrets, f"{file} (mode {mode:04o})")
    return Context(
        lmcache=knownkeys.lmcache(lmcache),
        nixl=nixl,
        vllm=vllm,
        profile=profile,
        geometry=geometry,
        max_tokens=max_tokens,
        tp=tp,
        env=values,
        addresses=frozenset(_address(a) for a in addresses) if addresses else None,
        exposed=exposed,
    )


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        raise KvlabError(f"{text!r} is not an IP address.") from None
