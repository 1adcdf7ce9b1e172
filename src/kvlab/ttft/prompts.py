"""Prompts as token ids from a seed: the same on every machine, and a fresh prefix for every start of a service."""

from __future__ import annotations

import random

FIRST_ID, LAST_ID = 32, 126
"""Byte-level and BPE vocabularies put their plain single characters first and their special tokens last."""


def prompt(
    run: str, seed: int, start: int, tokens: int, *, concurrency: int = 1, request: int = 0
) -> list[int]:
    """`tokens` ids; no two prompts of a run, and no two runs (`run` is a result's id), share a first chunk.

    Cold and hot passes of one context in one start share one prompt.
    """
    name = f"{run} {seed} {start} {tokens} {concurrency} {request}"
    return random.Random(name).choices(range(FIRST_ID, LAST_ID + 1), k=tokens)


def warmup(run: str, seed: int, start: int, tokens: int) -> list[int]:
    """Ids that share nothing with the prompts of the passes."""
    return prompt(run, seed, start, tokens, concurrency=0)
