"""kvlab size: what a model's KV cache takes, from its config.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kvlab.errors import KvlabError

MAX_GPU_GIB = 65_536
"""No GPU has more; above it the number is a slip."""


@click.command("size")
@click.option("--config", type=click.Path(path_type=Path), help="config.json of the model (Hugging Face).")
@click.option("--preset", metavar="NAME", help="A model that kvlab knows; 'list' shows them.")
@click.option("--tokens", type=int, help="Length of one request.")
@click.option("--tp", type=int, default=1, show_default=True, help="Tensor-parallel ranks.")
@click.option("--pp", type=int, default=1, show_default=True, help="Pipeline-parallel stages.")
@click.option("--chunk-size", type=int, default=256, show_default=True, help="LMCache's tokens per chunk.")
@click.option(
    "--kv-dtype",
    type=click.Choice(["auto", "bf16", "fp16", "fp8", "fp32"]),
    default="auto",
    show_default=True,
    help="vLLM's --kv-cache-dtype; auto follows the weights.",
)
@click.option(
    "--gpu-memory", type=float, metavar="GIB", help="Free memory of one GPU, for how many requests fit."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    config: Path | None,
    preset: str | None,
    tokens: int | None,
    tp: int,
    pp: int,
    chunk_size: int,
    kv_dtype: str,
    gpu_memory: float | None,
    as_json: bool,
) -> None:
    """Size of a KV cache: bytes per token, objects, transfer buffer, bucket.

    Objects and bucket count whole chunks, as LMCache stores them; the buffer also counts the unfinished one.
    """
    from kvlab.kvcache.files import read_json_object
    from kvlab.kvcache.geometry import GIB, Geometry
    from kvlab.kvcache.modelconfig import preset as find_preset
    from kvlab.kvcache.modelconfig import presets

    if preset == "list":
        click.echo("\n".join(presets()))
        return
    if tokens is None:
        raise KvlabError("--tokens is missing; say how long one request is.")
    if (config is None) == (preset is None):
        raise KvlabError("give either --config FILE or --preset NAME.")
    values = read_json_object(str(config)) if config else find_preset(preset or "")
    if gpu_memory is not None and not 0 < gpu_memory <= MAX_GPU_GIB:
        raise KvlabError(
            f"--gpu-memory is {gpu_memory} GiB; give what is free on one GPU, at most {MAX_GPU_GIB}."
        )
    geometry = Geometry.from_config(values, tp=tp, pp=pp, chunk_size=chunk_size, kv_dtype=kv_dtype)
    result = geometry.report(tokens, None if gpu_memory is None else int(gpu_memory * GIB))
    click.echo(json.dumps(result, indent=1) if as_json else _text(result))


def _text(result: dict[str, Any]) -> str:
    def size(name: str, value: int) -> str:
        return f"{name:<26}{value:>20,} B  {value / 1e9:>10.3f} GB  {value / 1024**3:>10.3f} GiB"

    lines = [
        f"{result['model_type']}, KV in {result['kv_dtype']}, TP {result['tp']}, PP {result['pp']}, "
        f"{result['tokens']:,} tokens in chunks of {result['chunk_size']}",
        f"{'bytes per token':<26}{result['bytes_per_token']:>20,} B",
        f"{'  on one rank':<26}{result['bytes_per_token_per_rank']:>20,} B",
        f"{'objects':<26}{result['objects']:>20,}",
        size("one object", result["object_bytes"]),
        size("one request", result["request_bytes"]),
        size("in the bucket", result["total_bytes"]),
        size("buffer of one rank", result["buffer_bytes_per_rank"]),
    ]
    if result["requests_in_gpu_memory"] is not None:
        lines.append(f"{'requests that fit a GPU':<26}{result['requests_in_gpu_memory']:>20,}")
    return "\n".join([*lines, *(f"note: {warning}" for warning in result["warnings"])])
