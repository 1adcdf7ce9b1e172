"""A Llama in numpy for these tests: fp32 sums, every activation rounded to bf16, as an engine computes.

It shares no code with what writes the weights, and reads them from the safetensors bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray

Array = NDArray[np.float32]


def bf16(x: NDArray[Any]) -> Array:
    """`x` rounded to the nearest bf16 (ties to even), as float32."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def tensors(file: bytes) -> dict[str, Array]:
    """The bf16 tensors of a safetensors file."""
    read = {}
    for name, entry in safetensors.deserialize(file):
        assert entry["dtype"] == "BF16"
        bits = np.frombuffer(bytes(entry["data"]), "<u2").astype(np.uint32) << 16
        read[name] = bits.view(np.float32).reshape(entry["shape"])
    return read


@dataclass
class Llama:
    config: dict[str, Any]
    weight: dict[str, Array]
    keys: list[Array] = field(default_factory=list)  # per layer: (KV heads, tokens, head size)
    values: list[Array] = field(default_factory=list)

    @classmethod
    def of(cls, files: dict[str, bytes]) -> Llama:
        model = cls(json.loads(files["config.json"]), tensors(files["model.safetensors"]))
        model.forget()
        return model

    def forget(self) -> None:
        shape = (self.config["num_key_value_heads"], 0, self.config["head_dim"])
        self.keys, self.values = (
            [np.zeros(shape, np.float32)] * self.config["num_hidden_layers"] for _ in "kv"
        )

    def forward(self, ids: list[int]) -> Array:
        """Append `ids` to the cached context; logits of the last of them."""
        w, start, n = self.weight, self.keys[0].shape[1], len(ids)
        positions = start + np.arange(n)
        x = w["model.embed_tokens.weight"][ids]
        for layer in range(self.config["num_hidden_layers"]):
            p = f"model.layers.{layer}."
            h = self._norm(x, w[p + "input_layernorm.weight"])
            q, k, v = (
                bf16(h @ w[f"{p}self_attn.{part}_proj.weight"].T)
                .reshape(n, -1, self.config["head_dim"])
                .transpose(1, 0, 2)
                for part in "qkv"
            )
            self.keys[layer] = np.concatenate([self.keys[layer], self._rotated(k, positions)], 1)
            self.values[layer] = np.concatenate([self.values[layer], v], 1)
            read = self._attention(self._rotated(q, positions), layer, positions)
            x = bf16(x + bf16(read @ w[p + "self_attn.o_proj.weight"].T))
            h = self._norm(x, w[p + "post_attention_layernorm.weight"])
            gate, up = (bf16(h @ w[f"{p}mlp.{part}_proj.weight"].T) for part in ("gate", "up"))
            with np.errstate(over="ignore"):
                silu = bf16(gate / (1 + np.exp(-gate)))
            x = bf16(x + bf16(bf16(silu * up) @ w[p + "mlp.down_proj.weight"].T))
        return bf16(self._norm(x[-1], w["model.norm.weight"]) @ w["lm_head.weight"].T)

    def greedy(self, ids: list[int], count: int) -> list[int]:
        """`count` greedy ids after the cached context and `ids`."""
        said = [int(self.forward(ids).argmax())]
        while len(said) < count:
            said.append(int(self.forward(said[-1:]).argmax()))
        return said

    def _norm(self, x: Array, weight: Array) -> Array:
        mean = (x * x).mean(-1, keepdims=True)
        return bf16(bf16(x / np.sqrt(mean + np.float32(self.config["rms_norm_eps"]))) * weight)

    def _rotated(self, x: Array, positions: NDArray[np.int64]) -> Array:
        half = self.config["head_dim"] // 2
        angle = positions[:, None] * self.config["rope_theta"] ** (-np.arange(half) / half)
        cos, sin = bf16(np.cos(angle)), bf16(np.sin(angle))
        a, b = x[..., :half], x[..., half:]
        return bf16(np.concatenate([a * cos - b * sin, b * cos + a * sin], -1))

    def _attention(self, q: Array, layer: int, positions: NDArray[np.int64]) -> Array:
        group = self.config["num_attention_heads"] // self.config["num_key_value_heads"]
        keys, values = (np.repeat(kept[layer], group, 0) for kept in (self.keys, self.values))
        scores = q @ keys.transpose(0, 2, 1) / np.float32(np.sqrt(self.config["head_dim"]))
        scores[:, np.arange(keys.shape[1])[None, :] > positions[:, None]] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        read = weights @ values / weights.sum(-1, keepdims=True)
        return bf16(read.transpose(1, 0, 2).reshape(q.shape[1], -1))
