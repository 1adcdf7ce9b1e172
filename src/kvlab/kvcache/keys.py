"""What an object's key says about the KV in it, without reading the object.

LMCache names objects in three ways (read in LMCache 0.4.5 and 0.5.6; facts/kv_bench.md section 4.5):

    in process, dynamic   model@world@worker@hash@dtype[@layer][@tag%value ...], with "/" and "@" written "_" and the
                          rest quoted as in a URL
    a pool of slots       obj_<slot>_<4 hex digits>, in MP mode and in process with a pool: the index that says what is
                          in a slot lives in the server's memory
    anything else         foreign to LMCache
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

DTYPES = [
    *("half", "bfloat16", "float", "double"),
    *("int8", "uint8", "int16", "int32", "int64", "bool"),
    *("fp8_e4m3fn", "fp8_e4m3fnuz", "fp8_e5m2", "fp8_e5m2fnuz"),
]
"""LMCache's names of tensor types."""

KV_DTYPES = {
    "bf16": ("bfloat16",),
    "fp16": ("half",),
    "fp32": ("float",),
    # vLLM keeps fp8 KV in bytes, whatever the format.
    "fp8": ("uint8", "fp8_e4m3fn", "fp8_e4m3fnuz", "fp8_e5m2", "fp8_e5m2fnuz"),
}
"""LMCache's names of the types that `kvlab size` speaks of."""

# Longest first, so that fp8_e4m3fnuz is not taken for fp8_e4m3fn with a tag.
_DTYPE = "|".join(sorted(DTYPES, key=len, reverse=True))
_NAMED = re.compile(
    rf"(?P<model>.+)_(?P<world>[0-9]+)_(?P<worker>[0-9]+)_(?P<hash>-?[0-9a-f]+)_(?P<dtype>{_DTYPE})(?:_(?P<more>.+))?"
)
_SLOT = re.compile(r"obj_[0-9]+_[0-9a-f]{4}")


@dataclass(frozen=True)
class KvKey:
    """The parts of an in-process key. `world_size` is TP x PP; `model` has "_" where the name had "/" or "@".

    `more` holds the layer and the tags of a key that has them; they cannot be told apart for certain.
    """

    model: str
    world_size: int
    worker: int
    chunk_hash: str
    dtype: str
    more: str = ""


def parse(key: str) -> KvKey | None:
    """The parts of a key of the in-process layout; None for any other key."""
    found = _NAMED.fullmatch(unquote(key))
    if found is None:
        return None
    world, worker = int(found["world"]), int(found["worker"])
    if worker >= world:
        return None
    return KvKey(found["model"], world, worker, found["hash"], found["dtype"], found["more"] or "")


def is_slot(key: str) -> bool:
    """Whether the key is a slot of a pool, whose name says nothing about its content."""
    return _SLOT.fullmatch(key) is not None
