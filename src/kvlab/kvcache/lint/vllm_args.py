"""Rules for vllm.args, the argument list of vLLM's server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kvlab.kvcache.geometry import GIB
from kvlab.kvcache.lint import combinations
from kvlab.kvcache.lint.document import flags_of, json_object, whole_number
from kvlab.kvcache.lint.types import Context, Finding, absent, did_you_mean

_CONNECTORS = ("LMCacheConnectorV1", "LMCacheMPConnector")


def check(args: Sequence[str], context: Context) -> Iterator[Finding]:
    """Every finding about vLLM's arguments."""
    flags = flags_of(args)
    if "--no-enable-prefix-caching" not in flags:
        yield absent(
            "VLM001",
            context.strict(),
            "--no-enable-prefix-caching",
            "vLLM's own prefix cache is on by default and answers hot passes before the tier under test is asked.",
            "Add --no-enable-prefix-caching.",
        )
    text = flags.get("--kv-transfer-config")
    if text is None:
        if context.profile not in (None, "baseline"):
            yield absent(
                "VLM002",
                "error",
                "--kv-transfer-config",
                "no connector is named: vLLM serves without an external cache.",
                "Add --kv-transfer-config.",
            )
        return
    if context.profile == "baseline":
        yield absent(
            "VLM003",
            "error",
            "--kv-transfer-config",
            "a baseline has no external cache.",
            "Remove the connector.",
        )
    config = json_object(text)
    if config is None:
        yield absent("VLM004", "error", "--kv-transfer-config", "it is not a JSON object.", "Correct it.")
        return
    connector = config.get("kv_connector")
    if connector not in _CONNECTORS:
        yield absent(
            "VLM005",
            "error",
            "--kv-transfer-config kv_connector",
            f"{connector!r} is no connector of LMCache.{did_you_mean(str(connector), _CONNECTORS)}",
            "LMCacheMPConnector, or LMCacheConnectorV1 in process.",
        )
    if "--enable-sleep-mode" in flags:
        yield absent(
            "VLM011",
            "error" if context.profile == "s3-rdma" else "warning",
            "--enable-sleep-mode",
            "memory of vLLM's sleep mode is mapped page by page and cannot be registered with the NIC.",
            "Remove --enable-sleep-mode.",
        )
    if config.get("kv_role") != "kv_both":
        yield absent(
            "VLM006",
            "error",
            "--kv-transfer-config kv_role",
            f"kv_role is {config.get('kv_role')!r}: this instance does not both store and load.",
            'Write "kv_role": "kv_both".',
        )
    if connector == "LMCacheConnectorV1":
        yield from combinations.in_process(context)
        yield from _in_process(flags, config, context)
    if config.get("kv_load_failure_policy") == "recompute":
        yield absent(
            "VLM007",
            "warning",
            "--kv-transfer-config kv_load_failure_policy",
            "recompute hides failed loads, and gives wrong output with vLLM's second model runner.",
            "Leave the default, fail.",
        )


def _in_process(flags: dict[str, str | None], config: dict[str, Any], context: Context) -> Iterator[Finding]:
    """What the arguments decide where LMCache runs inside vLLM."""
    model = flags.get("--model")
    if model is not None and model.startswith(("/", "./", "~")):
        yield absent(
            "VLM008",
            "warning",
            "--model",
            "the model is given by its path, and object keys carry the model as it is given: hosts with another path, "
            "or the model's name, share nothing with this one.",
            "Give the same --model on every host.",
        )
    yield from _engine_step(flags, context)
    extra = config.get("kv_connector_extra_config")
    for name in extra if isinstance(extra, dict) else ():
        key = name.removeprefix("lmcache.")
        if key == name:
            continue
        if key in context.lmcache.top:
            yield absent(
                "VLM010",
                "warning",
                f"--kv-transfer-config {name}",
                f"{name} overrides {key} of lmcache.yaml after LMCache has validated that.",
                "Set it in lmcache.yaml.",
            )
        else:
            yield absent(
                "VLM010",
                "error",
                f"--kv-transfer-config {name}",
                f"LMCache {context.lmcache.version} has no key {key}.{did_you_mean(key, context.lmcache.top)}",
                "Correct or remove it.",
            )


def _engine_step(flags: dict[str, str | None], context: Context) -> Iterator[Finding]:
    """One engine step passes through LMCache's pool in host memory; what does not fit is not stored."""
    whole_prompt = "--no-enable-chunked-prefill" in flags
    tokens = context.max_tokens if whole_prompt else whole_number(flags.get("--max-num-batched-tokens"))
    if context.geometry is None or tokens is None or tokens <= 0:
        if whole_prompt:
            yield absent(
                "VLM009",
                "warning",
                "--no-enable-chunked-prefill",
                "a whole prompt passes through LMCache's pool in host memory at once; what does not fit is not stored.",
                "Remove it, or let max_local_cpu_size hold the KV of the longest prompt.",
            )
        return
    step = tokens * context.geometry.bytes_per_token_per_rank
    default = context.lmcache.top["max_local_cpu_size"].default
    if step > default * GIB:
        yield absent(
            "VLM009",
            "warning",
            "--no-enable-chunked-prefill" if whole_prompt else "--max-num-batched-tokens",
            f"one engine step of {tokens} tokens stages {step} bytes on each rank, LMCache's pool has {default:g} GiB "
            "if its file does not say more, and what does not fit is not stored.",
            f"Give max_local_cpu_size at least {step / GIB:.1f}, or fewer tokens a step.",
        )
