"""What the test model says, computed by the reference Llama beside this file."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from llama import Llama, bf16, tensors

from kvlab.testmodel import weights
from kvlab.testmodel.tokenizer import byte_symbols, tokenizer

WORDS = 6  # greedy ids a prompt


def prompt(seed: int, tokens: int = 320) -> list[int]:
    draw = random.Random(seed)
    return [draw.randrange(256) for _ in range(tokens)]


def said(model: Llama, *pieces: list[int]) -> list[int]:
    """Greedy ids after a prompt that is computed piece by piece, as chunked prefill does."""
    model.forget()
    for piece in pieces[:-1]:
        model.forward(piece)
    return model.greedy(pieces[-1], WORDS)


def test_every_id_it_says_is_a_printable_character_and_never_the_end(model: Llama) -> None:
    for seed in range(2):
        assert all(chr(i).isascii() and chr(i).isprintable() for i in said(model, prompt(seed)))


@pytest.mark.parametrize("ids", [prompt(1), [5], list(b"the same words " * 20), [319] * 99])
def test_the_best_id_leads_by_a_third_for_any_prompt(model: Llama, ids: list[int]) -> None:
    model.forget()
    assert np.sort(model.forward(ids))[:-3:-1].tolist() == [48, 32]


def test_different_prompts_are_answered_differently_and_with_varied_ids(model: Llama) -> None:
    answers = [said(model, prompt(seed)) for seed in range(3)]
    assert len({tuple(answer) for answer in answers}) == 3
    assert min(len(set(answer)) for answer in answers) > WORDS // 2


def test_the_answer_is_the_same_however_the_prompt_is_cut(model: Llama) -> None:
    ids = prompt(3)
    whole = said(model, ids)
    assert whole == said(model, ids[:128], ids[128:256], ids[256:-1], ids[-1:])


@pytest.mark.parametrize("at", [0, 200, 319])
def test_one_changed_token_anywhere_changes_the_answer(model: Llama, at: int) -> None:
    ids = prompt(4)
    assert said(model, ids) != said(model, [*ids[:at], (ids[at] + 1) % 256, *ids[at + 1 :]])


@pytest.mark.parametrize("layer", range(weights.LAYERS))
def test_zeroed_keys_and_values_of_one_layer_change_the_answer(model: Llama, layer: int) -> None:
    ids = prompt(5)
    whole = said(model, ids)
    model.forget()
    model.forward(ids[:-1])
    model.keys[layer] = np.zeros_like(model.keys[layer])
    model.values[layer] = np.zeros_like(model.values[layer])
    assert model.greedy(ids[-1:], WORDS) != whole


@pytest.mark.parametrize("seed", range(2))
def test_a_zeroed_prefix_changes_the_answer(model: Llama, seed: int) -> None:
    ids = prompt(seed)
    whole = said(model, ids)
    model.forget()
    model.forward(ids[:256])
    model.keys, model.values = ([np.zeros_like(kept) for kept in part] for part in (model.keys, model.values))
    assert model.greedy(ids[256:], WORDS) != whole


def test_a_chunk_of_another_prompt_in_the_cache_changes_the_answer(model: Llama) -> None:
    ids, other = prompt(6), prompt(9)
    whole = said(model, ids)
    model.forget()
    model.forward(other[:128])
    foreign = [part.copy() for part in (*model.keys, *model.values)]
    model.forget()
    model.forward(ids[:256])
    for kept, wrong in zip((*model.keys, *model.values), foreign, strict=True):
        kept[:, :128] = wrong
    assert model.greedy(ids[256:], WORDS) != whole


def test_keys_are_whole_numbers_and_values_signs_so_that_every_sum_is_exact(model: Llama) -> None:
    said(model, prompt(7))
    for layer in range(1, weights.LAYERS):
        # What still turns on the slow rotary pairs is far below one.
        assert np.abs(model.keys[layer] - np.round(model.keys[layer])).max() < 1e-5
        assert np.abs(model.keys[layer]).max() <= 256
        assert set(np.unique(np.abs(model.values[layer]))) == {1}


def test_looking_back_is_sure_up_to_the_longest_context() -> None:
    """The place wanted leads every other by 88, e**88 fold: nothing is left for the rest in fp32."""
    layer = {
        name: bf16(w)[:, 0] * weights.CONSTANT
        for name, w in weights.tensors(0).items()
        if ".0.self_attn" in name
    }
    query = layer["model.layers.0.self_attn.q_proj.weight"].reshape(weights.HEADS, -1)
    key = layer["model.layers.0.self_attn.k_proj.weight"].reshape(weights.KV_HEADS, -1)[0]
    half = weights.HEAD_DIM // 2
    angle = np.arange(weights.MAX_POSITIONS)[:, None] * weights.ROPE_THETA ** (-np.arange(half) / half)
    cos, sin = bf16(np.cos(angle)), bf16(np.sin(angle))

    def rotated(x: np.ndarray) -> np.ndarray:
        return bf16(
            np.concatenate([x[:half] * cos - x[half:] * sin, x[half:] * cos + x[:half] * sin], axis=-1)
        )

    keys = rotated(key)
    positions = np.r_[4:60, 60 : weights.MAX_POSITIONS : 997, weights.MAX_POSITIONS - 1]
    for head in range(weights.HEADS):
        scores = rotated(query[head])[positions] @ keys.T / 8
        scores[np.arange(weights.MAX_POSITIONS)[None, :] > positions[:, None]] = -np.inf
        wanted = (np.arange(len(positions)), positions - head - 1)
        best = scores[wanted]
        scores[wanted] = -np.inf
        assert (best - scores.max(axis=1)).min() > 88


def test_every_token_has_a_code_of_its_own() -> None:
    table = weights.tensors(0)["model.embed_tokens.weight"]
    assert len(np.unique(table, axis=0)) == len(table)


def test_safetensors_reads_back_what_was_computed() -> None:
    named = weights.tensors(3)
    read = tensors(weights.safetensors_bytes(named))
    assert set(read) == set(named)
    for name, tensor in read.items():
        np.testing.assert_array_equal(tensor, bf16(named[name]))


def test_only_printable_ids_have_a_row_in_lm_head() -> None:
    rows = weights.tensors(0)["lm_head.weight"]
    assert [chr(i) for i in np.flatnonzero(rows.any(axis=1))] == sorted(weights.SPOKEN)
    assert len(np.unique(rows, axis=0)) == 64 + 1


def test_the_tokenizer_has_one_id_for_each_byte_in_order() -> None:
    symbols = byte_symbols()
    assert len(set(symbols)) == 256
    assert [symbols[ord(c)] for c in "aZ9.~"] == list("aZ9.~")
    assert (symbols[ord(" ")], symbols[ord("\n")]) == ("\u0120", "\u010a")  # as GPT-2's vocabulary has them
    assert symbols[0xAD] == "\u0143"  # the soft hyphen does not print, its neighbours do
    described = json.loads(json.dumps(tokenizer()))
    assert list(described["model"]["vocab"].values()) == list(range(320))
    assert [token["id"] for token in described["added_tokens"]] == list(range(256, 320))
