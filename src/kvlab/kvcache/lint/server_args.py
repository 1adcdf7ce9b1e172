"""Rules for lmcache.args, the argument list of LMCache's MP server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kvlab.kvcache import knownkeys
from kvlab.kvcache.geometry import GIB
from kvlab.kvcache.lint import nixl_params
from kvlab.kvcache.lint.document import Document, flags_of, json_object, whole_number
from kvlab.kvcache.lint.types import Context, Finding, absent, did_you_mean

_SECRETS = ("access_key", "secret_key", "session_token", "aws_access_key_id", "aws_secret_access_key")

_SCRIPTS = "--run-script-api-enabled"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def check(args: Sequence[str], context: Context) -> Iterator[Finding]:
    """Every finding about the MP server's arguments."""
    flags = flags_of(args)
    known = context.lmcache.server_flags
    for flag in flags:
        if flag not in known:
            yield absent(
                "MPS001",
                "error",
                flag,
                f"LMCache {context.lmcache.version}'s server has no {flag}.{did_you_mean(flag, known)}",
                "Correct or remove it.",
            )
    mode = flags.get("--supported-transfer-mode")
    if mode != "auto":
        yield absent(
            "MPS002",
            "error",
            "--supported-transfer-mode",
            "on a CPU the engine drives the transfer, and a server not set to auto answers no handler registered: the "
            "cache is silently off.",
            "Write --supported-transfer-mode auto.",
        )
    if flags.get("--l2-store-policy") != "skip_l1":
        yield absent(
            "MPS003",
            context.strict(),
            "--l2-store-policy",
            "objects stay in LMCache's DRAM tier, so hot passes do not read the store.",
            "Write --l2-store-policy skip_l1.",
        )
    yield from _scripts(flags, context)
    yield from _sizes(flags, context)
    adapter = flags.get("--l2-adapter")
    if adapter is None:
        yield absent(
            "MPS004",
            "error",
            "--l2-adapter",
            "no second tier is named: nothing leaves DRAM.",
            "Add --l2-adapter.",
        )
        return
    yield from _adapter(adapter, context)


def _scripts(flags: dict[str, str | None], context: Context) -> Iterator[Finding]:
    """POST /run_script: off by default where there is a switch, which LMCache has from 0.5.6 on; else always there."""
    if _SCRIPTS in flags:
        yield absent(
            "MPS016",
            "error",
            _SCRIPTS,
            "the server runs code that is sent to it (POST /run_script).",
            f"Remove {_SCRIPTS}.",
        )
    elif _SCRIPTS not in context.lmcache.server_flags:
        host = flags.get("--http-host") or "0.0.0.0"
        yield absent(
            "MPS016",
            "warning" if host in _LOOPBACK else "error",
            "--http-host",
            f"LMCache {context.lmcache.version}'s server runs code that is sent to {host} (POST /run_script), and has "
            "no switch against it.",
            "Use LMCache 0.5.6 or newer, or in-process mode; until then 127.0.0.1 on a host without other users.",
        )


def _sizes(flags: dict[str, str | None], context: Context) -> Iterator[Finding]:
    if context.geometry is None:
        return
    align = whole_number(flags.get("--l1-align-bytes"))
    want = context.geometry.mp_slot_bytes
    if align is not None and align.bit_count() != 1:
        yield absent(
            "MPS011",
            "error",
            "--l1-align-bytes",
            f"--l1-align-bytes is {align}; the server starts with powers of two only.",
            f"Write --l1-align-bytes {want}.",
        )
    elif align != want:
        yield absent(
            "MPS005",
            "error",
            "--l1-align-bytes",
            f"--l1-align-bytes is {align or 'not given'}, a chunk is {context.geometry.object_bytes} bytes: it becomes "
            "too many objects, and the pool runs out while requests still succeed.",
            f"Write --l1-align-bytes {want}.",
        )
    need = context.needed_buffer
    size = flags.get("--l1-size-gb")
    if need is not None and size is not None:
        try:
            have = float(size) * GIB
        except ValueError:
            yield absent("MPS006", "error", "--l1-size-gb", f"{size!r} is no number.", "Give GiB.")
            return
        if not have >= need:
            yield absent(
                "MPS006",
                "error",
                "--l1-size-gb",
                f"a request of {context.max_tokens} tokens needs {need} bytes and the DRAM tier has {have:.0f}.",
                f"Give at least {need / GIB:.2f}.",
            )


def _adapter(text: str, context: Context) -> Iterator[Finding]:
    adapter = json_object(text)
    if adapter is None:
        yield absent("MPS007", "error", "--l2-adapter", "the adapter is not a JSON object.", "Correct it.")
        return
    params = adapter.get("backend_params")
    params = params if isinstance(params, dict) else {}
    named = [key for key in _SECRETS if params.get(key) or adapter.get(key)]
    if named:
        yield absent(
            "MPS008",
            "error",
            "--l2-adapter",
            f"{named[0]} stands on the command line, where every user of the host can read it.",
            "Leave it out; give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY by a 0600 environment file.",
        )
    if adapter.get("type") == "nixl_store_dynamic" and not _is_file(adapter):
        yield absent(
            "MPS012",
            "error",
            "--l2-adapter backend",
            f"nixl_store_dynamic is for file back ends, not {adapter.get('backend')!r}: no server starts.",
            'Write "type": "nixl_store" for OBJ.',
        )
    if adapter.get("type") != "nixl_store":
        return
    # The parameters are judged as if they stood in a file; their place is the argument.
    doc = Document({"backend_params": params}, {}, ())
    if _is_file(adapter):
        yield from nixl_params.strings_only(doc, ("backend_params",))
        yield from _files(params)
    elif adapter.get("backend") not in _backends():
        yield absent(
            "MPS013",
            "error",
            "--l2-adapter backend",
            f"{adapter.get('backend')!r} is no NIXL back end; the server does not start."
            + did_you_mean(str(adapter.get("backend")).upper(), _backends()),
            f"One of {', '.join(_backends())}.",
        )
    pool = adapter.get("pool_size")
    if isinstance(pool, bool) or not isinstance(pool, int) or pool <= 0:
        yield absent(
            "MPS009",
            "error",
            "--l2-adapter pool_size",
            f"pool_size is {pool!r}; MP mode has a static pool only and refuses to start.",
            "Give the number of objects that the bucket may hold.",
        )
    elif context.geometry is not None and context.max_tokens is not None:
        need = context.geometry.objects(context.max_tokens) * context.geometry.mp_slots_per_chunk
        have = pool * _slots_per_file(params, context.geometry.mp_slot_bytes)
        if have < need:
            yield absent(
                "MPS010",
                "error",
                "--l2-adapter pool_size",
                f"one request of {context.max_tokens} tokens makes {need} objects, the pool has {have}.",
                f"Give several times {need}.",
            )
    if adapter.get("backend") == "OBJ":
        yield from nixl_params.check(doc, ("backend_params",), context)


def _backends() -> list[str]:
    known: list[str] = knownkeys.data("nixl-obj")["server_backends"]
    return known


def _is_file(adapter: dict[str, Any]) -> bool:
    """Whether the adapter keeps its objects in files."""
    return adapter.get("backend") in _backends() and adapter.get("backend") not in ("OBJ", "AZURE_BLOB")


def _files(params: dict[str, Any]) -> Iterator[Finding]:
    for key, example in (("file_path", "/mounted/folder"), ("use_direct_io", "false")):
        if key not in params:
            yield absent(
                "MPS014",
                "error",
                f"--l2-adapter backend_params {key}",
                f"a file back end needs {key}; the server does not start.",
                f'Add "{key}": "{example}".',
            )
    if "file_size" not in params:
        yield absent(
            "MPS015",
            "warning",
            "--l2-adapter backend_params file_size",
            "file_size is missing: every slot is a file of --l1-align-bytes that stays open, 4 KiB by default.",
            'Add "file_size", a multiple of --l1-align-bytes.',
        )


def _slots_per_file(params: dict[str, Any], slot: int) -> int:
    """Objects in one file of a file back end; 1 for object back ends."""
    size = whole_number(params.get("file_size"))
    return max(1, size // slot) if size else 1
