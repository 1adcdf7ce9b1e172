"""Which configuration keys a release of LMCache reads, found by parsing its source; nothing of it is imported.

`scan` is run over an unpacked wheel or an installed package; its results for the published releases are the data
files under `known/` (names, types and defaults: facts, no code), made by `ci/scan_lmcache_keys.py`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError

_KNOWN = Path(__file__).with_name("known")
_SERVER_PARTS = frozenset(("cli", "distributed", "mp_observability", "multiprocess"))
"""Parts of the package that add flags to the MP server."""


@dataclass(frozen=True)
class Key:
    """A top-level key: its type as the source writes it, and its default where that is a literal."""

    type: str
    default: Any = None


@dataclass(frozen=True)
class LmcacheKeys:
    """What one release of LMCache reads."""

    version: str
    top: Mapping[str, Key]
    renamed: Mapping[str, str | None]
    """Old name to new name; None where it is only deprecated."""
    extra: frozenset[str]
    """Keys of `extra_config` that the source names literally."""
    server_flags: frozenset[str]
    """Flags of the MP server."""


def versions() -> list[str]:
    """Releases of LMCache with data, oldest first."""
    names = (
        file.name.removeprefix("lmcache-").removesuffix(".json") for file in _KNOWN.glob("lmcache-*.json")
    )
    return sorted(names, key=lambda name: [int(part) for part in name.split(".")])


@cache
def lmcache(version: str) -> LmcacheKeys:
    """The keys of a release, or of the package in a folder (a path instead of a version).

    Raises:
        KvlabError: there is no data for the release, or the folder holds no LMCache.
    """
    if "/" in version:
        return scan(Path(version))
    if version not in versions():
        raise KvlabError(
            f"there is no data for LMCache {version}; there is for {', '.join(versions())}. For another one give the "
            "folder that holds its `lmcache` package instead of a version."
        )
    data = json.loads((_KNOWN / f"lmcache-{version}.json").read_text("utf-8"))
    return LmcacheKeys(
        version=data["version"],
        top={name: Key(**key) for name, key in data["top"].items()},
        renamed=data["renamed"],
        extra=frozenset(data["extra"]),
        server_flags=frozenset(data["server_flags"]),
    )


@cache
def data(name: str) -> dict[str, Any]:
    """Another data file under `known/`: nixl-obj, cufile."""
    values: dict[str, Any] = json.loads((_KNOWN / f"{name}.json").read_text("utf-8"))
    return values


def dump(keys: LmcacheKeys) -> str:
    """The content of a data file."""
    plain = asdict(keys) | {"extra": sorted(keys.extra), "server_flags": sorted(keys.server_flags)}
    return json.dumps(plain, sort_keys=True, indent=1) + "\n"


def scan(folder: Path) -> LmcacheKeys:
    """Find the keys in the source of the `lmcache` package in `folder` (site-packages, or an unpacked wheel).

    Raises:
        KvlabError: the folder holds no LMCache, or its source is laid out in a way not seen before.
    """
    package = folder / "lmcache"
    config = package / "v1" / "config.py"
    if not config.is_file():
        raise KvlabError(
            f"{folder} holds no LMCache (no lmcache/v1/config.py); give the folder above the package."
        )
    top: dict[str, Key] = {}
    renamed: dict[str, str | None] = {}
    for name, value in _assignments(ast.parse(config.read_text("utf-8"))):
        if name == "_CONFIG_DEFINITIONS":
            top = {key: _key(node) for key, node in _items(value)}
        elif name == "_CONFIG_ALIASES":
            renamed |= {key: _literal(node) for key, node in _items(value)}
        elif name == "_DEPRECATED_CONFIGS":
            for key, _ in _items(value):
                renamed.setdefault(key, None)
    # A name can be an old spelling in one place and a key of its own in another; then it is a key.
    renamed = {old: new for old, new in renamed.items() if old not in top}
    if not top:
        raise KvlabError(
            f"{config} defines its keys in a way that kvlab does not know; use a version with data."
        )
    extra: set[str] = set()
    flags: set[str] = set()
    for file in sorted(package.rglob("*.py")):
        text = file.read_text("utf-8")
        wants_extra, wants_flags = "extra_config" in text, "add_argument" in text
        if not (wants_extra or wants_flags):
            continue
        tree = ast.parse(text)
        if wants_extra:
            extra.update(_extra_keys(tree))
        if wants_flags and _SERVER_PARTS.intersection(file.relative_to(package).parts):
            flags.update(_flags(tree))
    return LmcacheKeys(_version(folder, package), top, renamed, frozenset(extra), frozenset(flags))


def _version(folder: Path, package: Path) -> str:
    for info in folder.glob("lmcache-*.dist-info"):
        return info.name.removeprefix("lmcache-").removesuffix(".dist-info")
    file = package / "_version.py"
    if file.is_file():
        for name, value in _assignments(ast.parse(file.read_text("utf-8"))):
            if name in ("version", "__version__") and isinstance(_literal(value), str):
                return str(_literal(value))
    raise KvlabError(f"the LMCache in {folder} does not say its version.")


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            yield node.target.id, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value


def _items(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value


def _literal(node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, (str, int, float, bool, list)) else None


def _key(node: ast.expr) -> Key:
    parts = dict(_items(node))
    kind = ast.unparse(parts["type"]) if "type" in parts else "Any"
    return Key(type=kind, default=_literal(parts["default"]) if "default" in parts else None)


def _extra_keys(tree: ast.AST) -> Iterator[str]:
    """Literal keys in `extra_config.get("k")`, `get_extra_config_value("k")` and `extra_config["k"]`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            called = node.func
            if isinstance(called, ast.Attribute) and (
                called.attr == "get_extra_config_value"
                or (called.attr in ("get", "pop") and "extra_config" in ast.unparse(called.value))
            ):
                yield from _strings(node.args[0])
        elif isinstance(node, ast.Subscript) and "extra_config" in ast.unparse(node.value):
            yield from _strings(node.slice)
        elif (
            isinstance(node, ast.Compare)
            and any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops)
            and "extra_config" in ast.unparse(node.comparators[0])
        ):
            yield from _strings(node.left)


def _strings(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _flags(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "add_argument"
        ):
            boolean = any("BooleanOptionalAction" in ast.unparse(word.value) for word in node.keywords)
            for argument in node.args:
                for flag in _strings(argument):
                    if flag.startswith("--"):
                        yield flag
                        if boolean:
                            yield "--no-" + flag[2:]
