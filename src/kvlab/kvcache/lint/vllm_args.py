"""Rules for vllm.args, the argument list of vLLM's server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvlab.kvcache.lint import combinations
from kvlab.kvcache.lint.document import flags_of, json_object
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
    if config.get("kv_load_failure_policy") == "recompute":
        yield absent(
            "VLM007",
            "warning",
            "--kv-transfer-config kv_load_failure_policy",
            "recompute hides failed loads, and gives wrong output with vLLM's second model runner.",
            "Leave the default, fail.",
        )
