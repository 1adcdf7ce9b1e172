"""How many bytes a model's KV cache takes: per token, per object, per rank, per request.

Everything is computed from a Hugging Face `config.json` and four choices (tensor parallelism, pipeline
parallelism, chunk size, KV dtype). What the config does not say is an error or a warning, never a guess.
Source: facts/kv_bench.md section 5; `tests/integration/test_geometry_against_vllm.py` checks the numbers
against vLLM's own KV cache.

    bytes per token and rank = dtype bytes x sum over the rank's layers of
        (KV heads on the rank x elements that a head stores for a token)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvlab.errors import KvlabError
from kvlab.kvcache.modelconfig import STORED, WINDOWED, Layer, ModelShape, read_model

DTYPE_BYTES: Mapping[str, int] = {"bf16": 2, "fp16": 2, "fp8": 1, "fp32": 4}
DEFAULT_CHUNK = 256
"""LMCache's default tokens per chunk."""
MAX_PIECES = 8
"""More objects per chunk than this cost more in requests than padding costs in bytes."""
VLLM_BLOCK_TOKENS = 16
"""Tokens in one of vLLM's KV blocks (its default); GPU memory is taken in whole blocks."""
GIB = 1024**3
# Above these a number is a slip of the pen, not a plan.
MAX_RANKS = 65_536
MAX_TOKENS = 1_000_000_000
MAX_GPU_BYTES = 1 << 50


@dataclass(frozen=True)
class Geometry:
    """The KV cache of one model under one parallel layout. All sizes are bytes.

    A rank is one worker process (TP x PP of them). With pipeline stages of unequal depth the per-rank
    figures are those of the deepest stage; totals add the stages up exactly.
    """

    model_type: str
    kv_dtype: str
    tp: int
    pp: int
    chunk_size: int
    stage_bytes_per_token: tuple[int, ...]
    """Bytes per token on one rank of each pipeline stage."""
    stage_window_bytes_per_token: tuple[int, ...]
    """The part of it that belongs to layers with a window (sliding or chunked attention)."""
    saving_ranks_per_stage: int
    """Ranks of a stage that store objects: TP, or 1 where all ranks hold the same latent (MLA)."""
    attention_layers: int
    windowed_layers: int
    linear_layers: int
    window: int | None
    model_max_tokens: int | None
    warnings: tuple[str, ...]

    @classmethod
    def from_config(
        cls,
        config: Mapping[str, Any],
        *,
        tp: int = 1,
        pp: int = 1,
        chunk_size: int = DEFAULT_CHUNK,
        kv_dtype: str = "auto",
    ) -> Geometry:
        """Compute the geometry from a `config.json` read as a mapping.

        `kv_dtype` is auto, bf16, fp16, fp8 or fp32.

        Raises:
            KvlabError: unknown model type, missing field, or a number that cannot be.
        """
        _in_range("tp", tp, MAX_RANKS)
        _in_range("pp", pp, MAX_RANKS)
        _in_range("chunk size", chunk_size, 1_048_576)
        if kv_dtype != "auto" and kv_dtype not in DTYPE_BYTES:
            raise KvlabError(f"KV dtype {kv_dtype!r} is not one of auto, {', '.join(DTYPE_BYTES)}.")
        shape = read_model(config)
        if pp > len(shape.layers):
            raise KvlabError(f"{pp} pipeline stages cannot share {len(shape.layers)} layers; lower --pp.")
        _check_tp(shape, tp)
        dtype = shape.dtype if kv_dtype == "auto" else kv_dtype
        size = DTYPE_BYTES[dtype]
        stages = _pipeline_stages(shape.layers, pp)
        return cls(
            model_type=shape.model_type,
            kv_dtype=dtype,
            tp=tp,
            pp=pp,
            chunk_size=chunk_size,
            stage_bytes_per_token=tuple(_bytes(stage, shape.mla, tp, size) for stage in stages),
            stage_window_bytes_per_token=tuple(
                _bytes(tuple(x for x in stage if x.kind in WINDOWED), shape.mla, tp, size) for stage in stages
            ),
            saving_ranks_per_stage=1 if shape.mla else tp,
            attention_layers=sum(x.kind in STORED for x in shape.layers),
            windowed_layers=sum(x.kind in WINDOWED for x in shape.layers),
            linear_layers=sum(x.kind == "linear" for x in shape.layers),
            window=shape.window,
            model_max_tokens=shape.max_tokens,
            warnings=_warnings(shape, tp, kv_dtype),
        )

    @property
    def bytes_per_token(self) -> int:
        """Over all ranks that store, counting each replica that is stored."""
        return sum(self.stage_bytes_per_token) * self.saving_ranks_per_stage

    @property
    def bytes_per_token_per_rank(self) -> int:
        return max(self.stage_bytes_per_token)

    @property
    def bytes_per_token_full_attention(self) -> int:
        """`bytes_per_token` without the layers that have a window: what grows without bound where engine and
        connector treat windowed layers apart."""
        return self.bytes_per_token - sum(self.stage_window_bytes_per_token) * self.saving_ranks_per_stage

    @property
    def object_bytes(self) -> int:
        """One object in the store: one chunk of one rank."""
        return self.bytes_per_token_per_rank * self.chunk_size

    @property
    def mp_slot_bytes(self) -> int:
        """Size of one object that LMCache's MP server stores: its pages must be powers of two.

        The largest power of two that divides a chunk, so that the bytes stay exact; where that would cut a chunk
        into more than MAX_PIECES, the next power of two above it, which pads.
        """
        exact = self.object_bytes & -self.object_bytes
        if self.object_bytes // exact <= MAX_PIECES:
            return exact
        return 1 << (self.object_bytes - 1).bit_length()

    @property
    def mp_slots_per_chunk(self) -> int:
        """Objects that the MP server makes of one chunk of one rank."""
        return -(-self.object_bytes // self.mp_slot_bytes)

    def objects(self, tokens: int) -> int:
        """Objects in the bucket after `tokens` were stored; an unfinished chunk is not stored."""
        return self._chunks_down(tokens) * self.pp * self.saving_ranks_per_stage

    def total_bytes(self, tokens: int) -> int:
        """Bytes in the bucket after `tokens` were stored."""
        return self._chunks_down(tokens) * self.chunk_size * self.bytes_per_token

    def request_bytes(self, tokens: int) -> int:
        """KV bytes of one request of `tokens`, to the token."""
        _in_range("tokens", tokens, MAX_TOKENS)
        return tokens * self.bytes_per_token

    def chunks(self, tokens: int) -> int:
        """Chunks that hold `tokens`, the last one perhaps not full."""
        _in_range("tokens", tokens, MAX_TOKENS)
        return -(-tokens // self.chunk_size)

    def buffer_bytes_per_rank(self, tokens: int) -> int:
        """Transfer buffer that one rank needs to load a request of `tokens`: reads are all or nothing."""
        return self.chunks(tokens) * self.object_bytes

    def requests_in(self, gpu_bytes: int, tokens: int) -> int:
        """Requests of `tokens` whose KV fits `gpu_bytes` of one rank's memory, in vLLM's whole blocks and
        with every layer kept at full length."""
        _in_range("GPU memory in bytes", gpu_bytes, MAX_GPU_BYTES)
        _in_range("tokens", tokens, MAX_TOKENS)
        blocks = -(-tokens // VLLM_BLOCK_TOKENS)
        return gpu_bytes // (blocks * VLLM_BLOCK_TOKENS * self.bytes_per_token_per_rank)

    def report(self, tokens: int, gpu_bytes: int | None = None) -> dict[str, Any]:
        """Everything about one request of `tokens` as plain data; `kvlab size --json` prints it."""
        warnings = list(self.warnings)
        if self.model_max_tokens is not None and tokens > self.model_max_tokens:
            warnings.append(f"{tokens} tokens are more than the model's own {self.model_max_tokens}.")
        return {
            "model_type": self.model_type,
            "kv_dtype": self.kv_dtype,
            "tp": self.tp,
            "pp": self.pp,
            "chunk_size": self.chunk_size,
            "tokens": tokens,
            "bytes_per_token": self.bytes_per_token,
            "bytes_per_token_per_rank": self.bytes_per_token_per_rank,
            "bytes_per_token_full_attention": self.bytes_per_token_full_attention,
            "object_bytes": self.object_bytes,
            "objects": self.objects(tokens),
            "buffer_bytes_per_rank": self.buffer_bytes_per_rank(tokens),
            "total_bytes": self.total_bytes(tokens),
            "request_bytes": self.request_bytes(tokens),
            "requests_in_gpu_memory": None if gpu_bytes is None else self.requests_in(gpu_bytes, tokens),
            "warnings": warnings,
        }

    def _chunks_down(self, tokens: int) -> int:
        _in_range("tokens", tokens, MAX_TOKENS)
        return tokens // self.chunk_size


def _in_range(name: str, value: object, top: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= top:
        raise KvlabError(f"{name} is {value!r}; it must be a whole number from 1 to {top}.")


def _check_tp(shape: ModelShape, tp: int) -> None:
    if shape.mla:
        return
    kv_heads = shape.layers[0].kv_heads
    if kv_heads % tp and tp % kv_heads:
        raise KvlabError(
            f"{kv_heads} KV heads cannot be shared evenly by {tp} ranks; vLLM refuses this --tp."
        )
    if shape.query_heads % tp:
        raise KvlabError(
            f"{shape.query_heads} attention heads cannot be divided among {tp} ranks; vLLM refuses this --tp."
        )


def _pipeline_stages(layers: tuple[Layer, ...], pp: int) -> list[tuple[Layer, ...]]:
    """Layers of each stage as vLLM splits them: what is left over goes to the stages before the last."""
    depth, left = divmod(len(layers), pp)
    depths = [depth] * pp
    for i in range(2, left + 2):
        depths[-i] += 1
    stages, start = [], 0
    for length in depths:
        stages.append(layers[start : start + length])
        start += length
    return stages


def _bytes(layers: tuple[Layer, ...], mla: bool, tp: int, dtype_bytes: int) -> int:
    return dtype_bytes * sum(
        (1 if mla else max(1, layer.kv_heads // tp)) * layer.elements_per_head
        for layer in layers
        if layer.kind in STORED
    )


def _warnings(shape: ModelShape, tp: int, kv_dtype: str) -> tuple[str, ...]:
    found = list(shape.notes)
    stored = [x for x in shape.layers if x.kind in STORED]
    windowed = [x for x in stored if x.kind in WINDOWED]
    heads = max(x.kv_heads for x in stored)
    if kv_dtype != "auto":
        found = [note for note in found if "--kv-dtype" not in note and "float32" not in note]
    if not shape.mla and tp > heads:
        found.append(
            f"{tp} ranks share {heads} KV heads: each head is kept {tp // heads} times, and the total grows."
        )
    if shape.mla and tp > 1:
        found.append(
            "MLA: every rank holds the same latent cache; it is not divided by TP and is stored once."
        )
    if shape.mla and kv_dtype == "fp8":
        found.append("fp8 MLA layouts may add scale bytes that depend on the attention backend; not counted.")
    if windowed:
        length = f"{shape.window} tokens" if shape.window else "a length that config.json does not say"
        found.append(
            f"{len(windowed)} of {len(stored)} attention layers look back over {length}. All are counted "
            "at full length, as a connector without support for the hybrid KV cache manager stores them."
        )
    linear = sum(x.kind == "linear" for x in shape.layers)
    if linear:
        found.append(
            f"{linear} of {len(shape.layers)} layers keep a state of fixed size per request (Mamba or linear "
            "attention); it is not in these numbers, and it needs a connector that supports hybrid models."
        )
    return tuple(found)
