"""Rules for lmcache.yaml, the file of LMCache's in-process mode: which keys it has, and of what type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kvlab.kvcache.lint import storage
from kvlab.kvcache.lint.document import EXTRA, Document, whole_number
from kvlab.kvcache.lint.types import Context, Finding, did_you_mean, nearest

_SWITCHES = (
    "enable_nixl_storage",
    "nixl_async_put",
    "nixl_enable_prog_thread",
    "nixl_presence_cache",
    "nixl_presence_cache_only",
    "nixl_use_hugepages",
)
"""Keys of extra_config that LMCache tests for truth as they are, without a conversion."""


def check(doc: Document, context: Context) -> Iterator[Finding]:
    """Every finding about an lmcache.yaml."""
    for key, line in doc.twice:
        yield Finding(
            "LMC001",
            "error",
            key,
            line,
            f"{key} is given twice; the last one counts.",
            "Remove one of the two.",
        )
    yield from _top_keys(doc, context)
    extra = _unquoted(doc.get(EXTRA))
    if extra is not None and not isinstance(extra, dict):
        yield doc.finding(
            "LMC002",
            "error",
            (EXTRA,),
            "extra_config is neither a mapping nor a JSON object in a string.",
            "Indent its keys under extra_config.",
        )
        return
    if not isinstance(extra, dict):
        extra = {}
    yield from _extra_keys(doc, extra, context)
    if not extra.get("enable_nixl_storage"):
        if any(key.startswith("nixl_") for key in extra) or context.profile is not None:
            yield doc.finding(
                "LMC003",
                "error",
                (EXTRA, "enable_nixl_storage"),
                "enable_nixl_storage is not on: every other NIXL setting is without effect.",
                "Write enable_nixl_storage: true under extra_config.",
            )
        return
    yield from storage.check(doc, extra, context)


def _unquoted(extra: object) -> object:
    """What LMCache makes of extra_config: a string is read as JSON."""
    if isinstance(extra, str):
        try:
            return json.loads(extra)
        except ValueError:
            return extra
    return extra


def _top_keys(doc: Document, context: Context) -> Iterator[Finding]:
    keys = context.lmcache
    for key, value in doc.values.items():
        path = (key,)
        if key in keys.renamed:
            new = keys.renamed[key]
            yield doc.finding(
                "LMC004",
                "warning",
                path,
                f"{key} is an old name in LMCache {keys.version}.",
                f"Write {new}." if new else "See the release notes for what replaces it.",
            )
        elif key not in keys.top:
            hint = did_you_mean(key, keys.top)
            if key in keys.extra:
                hint = " It belongs under extra_config."
            yield doc.finding(
                "LMC005",
                "error",
                path,
                f"LMCache {keys.version} has no key {key}; it warns in its log and goes on without.{hint}",
                "Correct or remove the key.",
            )
        else:
            yield from _type(doc, key, value, keys.top[key].type)


def _type(doc: Document, key: str, value: Any, kind: str) -> Iterator[Finding]:
    """What LMCache's own conversion makes of a value that has the wrong type: often nothing at all."""
    if value is None:
        return
    kind = kind.removeprefix("Optional[").removesuffix("]")
    if (
        kind == "bool"
        and not isinstance(value, bool)
        and str(value).strip().lower() not in ("true", "false", "1", "0")
    ):
        yield doc.finding(
            "LMC006",
            "error",
            (key,),
            f"{key} is {value!r}, which LMCache reads as false.",
            "Write true or false.",
        )
    elif kind == "int" and whole_number(value) is None:
        yield doc.finding(
            "LMC006",
            "error",
            (key,),
            f"{key} is {value!r}, not a whole number; LMCache drops it or cuts it.",
            "Write a number.",
        )
    elif kind == "float":
        try:
            float(value)
        except (TypeError, ValueError):
            yield doc.finding(
                "LMC006",
                "error",
                (key,),
                f"{key} is {value!r}, not a number; LMCache drops it.",
                "Write a number.",
            )


def _extra_keys(doc: Document, extra: dict[str, Any], context: Context) -> Iterator[Finding]:
    known = context.lmcache.extra
    for key in _SWITCHES:
        value = extra.get(key)
        if value is not None and not isinstance(value, bool):
            yield doc.finding(
                "LMC053",
                "error",
                (EXTRA, key),
                f"{key} is {value!r}, not true or false: LMCache converts nothing under extra_config, and any text "
                'counts as true, "false" too.',
                "Write true or false without quotes.",
            )
    for key in extra:
        path = (EXTRA, key)
        if key in known or "." in key or key.startswith(("storage_plugin", "remote_storage_plugin")):
            continue
        if key in context.lmcache.top:
            yield doc.finding(
                "LMC007",
                "error",
                path,
                f"{key} is not read under extra_config.",
                "Move it to the top level of the file.",
            )
            continue
        near = nearest(key, known)
        sure = near is not None or "nixl" in key
        yield doc.finding(
            "LMC008",
            "error" if sure else "warning",
            path,
            f"LMCache {context.lmcache.version} reads no {key} in extra_config and says nothing about it."
            + (f" Did you mean {near}?" if near else ""),
            "Correct or remove the key.",
        )
