"""The linter for KV-cache configuration: text in, findings out, no I/O.

It knows four kinds of file by their content: lmcache.yaml, cufile.json, and a profile's lmcache.args and vllm.args.
Ids are stable: LMC lmcache.yaml, NIX NIXL's parameters, CUF cufile.json, MPS MP server, VLM vLLM, ENV environment,
STK combinations of versions. Sources: facts/kv_bench.md sections 0 and 4, facts/provisioning.md 2.8-3,
facts/objectscale.md 5, facts/stacks.md.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

from kvlab.kvcache.lint import (
    combinations,
    cufile,
    environment,
    lmcache_file,
    nixl_params,
    server_args,
    vllm_args,
)
from kvlab.kvcache.lint.document import Document, UnreadableError, read, strip_json_comments, whole_number
from kvlab.kvcache.lint.types import Context, Finding

__all__ = ["Context", "Finding", "UnreadableError", "has_errors", "lint", "with_mode"]

_ORDER = {"error": 0, "warning": 1, "note": 2}


def lint(text: str, name: str, context: Context) -> list[Finding]:
    """Everything that is wrong with one file, errors first, then by line.

    `name` is used in messages, and where it ends in `.json` or `.args` to tell the kind.

    Raises:
        UnreadableError: the text is not a configuration file.
    """
    return sorted(_findings(text, name, context), key=lambda f: (_ORDER[f.severity], f.line, f.id, f.key))


def with_mode(context: Context, mode: int | None) -> Context:
    """The same context for a file with these permission bits."""
    return dataclasses.replace(context, file_mode=mode)


def has_errors(findings: list[Finding]) -> bool:
    """Whether any finding is an error."""
    return any(finding.severity == "error" for finding in findings)


def _findings(text: str, name: str, context: Context) -> Iterator[Finding]:
    if text.lstrip()[:1] == "[":
        yield from _argument_list(text, name, context)
        return
    commented = False
    if name.endswith(".json") or text.lstrip()[:1] in "{/":
        text, commented = strip_json_comments(text)
    doc = read(text, name)
    chunk = whole_number(doc.get("chunk_size"))
    if context.geometry is not None and chunk is not None and chunk > 0:
        context = dataclasses.replace(
            context, geometry=dataclasses.replace(context.geometry, chunk_size=chunk)
        )
    if {"properties", "execution", "fs", "denylist"} & doc.values.keys() or name.endswith(
        ("cufile.json", "cuobj.json")
    ):
        yield from cufile.check(doc, context, commented)
        return
    yield from lmcache_file.check(doc, context)
    yield from environment.check(context, _accelerated(doc))
    yield from combinations.in_process(context)


def _accelerated(doc: Document) -> bool:
    params = doc.get("extra_config", "nixl_backend_params")
    return isinstance(params, dict) and nixl_params.is_accelerated(params)


def _argument_list(text: str, name: str, context: Context) -> Iterator[Finding]:
    try:
        args = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableError(f"{name} begins like a list of arguments but is not JSON.") from None
    if not isinstance(args, list) or not all(isinstance(argument, str) for argument in args):
        raise UnreadableError(f"{name} is not a list of strings.")
    if any("vllm" in argument for argument in args[:3]):
        yield from vllm_args.check(args, context)
    elif any("lmcache" in argument for argument in args[:3]):
        yield from server_args.check(args, context)
    else:
        raise UnreadableError(f"{name} starts neither vLLM nor LMCache.")
