"""An object's key tells model, ranks, dtype; slots and foreign keys are told apart from it."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.kvcache import keys
from kvlab.kvcache.keys import KvKey


def written(model: str, *parts: object) -> str:
    """A key as LMCache writes it."""
    return quote("@".join([model, *map(str, parts)]).replace("/", "_").replace("@", "_"), safe="")


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        (
            "Qwen_Qwen3-Coder-30B-A3B-Instruct_4_2_1234abcd5678ef90_bfloat16",
            KvKey("Qwen_Qwen3-Coder-30B-A3B-Instruct", 4, 2, "1234abcd5678ef90", "bfloat16"),
        ),
        ("m_1_0_-1f_half", KvKey("m", 1, 0, "-1f", "half")),
        ("m_8_7_ab_fp8_e4m3fnuz", KvKey("m", 8, 7, "ab", "fp8_e4m3fnuz")),
        ("m_8_7_ab_fp8_e4m3fn_3", KvKey("m", 8, 7, "ab", "fp8_e4m3fn", "3")),
        ("m_1_0_ab_bfloat16_tenant%25blue", KvKey("m", 1, 0, "ab", "bfloat16", "tenant%blue")),
        ("Llama_3_1_8_0_ab_bfloat16", KvKey("Llama_3_1", 8, 0, "ab", "bfloat16")),
        ("modell%C3%A4_1_0_ab_half", KvKey("modellä", 1, 0, "ab", "half")),
    ],
)
def test_the_parts_of_an_in_process_key(key: str, parts: KvKey) -> None:
    assert keys.parse(key) == parts
    assert not keys.is_slot(key)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "readme.txt",
        ".kvlab/epoch.json",
        "m_1_0_xyz_half",
        "m_1_0_ab_float128",
        "m_2_2_ab_half",
        "_1_0_ab_half",
    ],
)
def test_other_keys_have_no_parts(key: str) -> None:
    assert keys.parse(key) is None


def test_a_slot_is_a_slot_and_has_no_parts() -> None:
    assert keys.is_slot("obj_17_0af3")
    assert keys.parse("obj_17_0af3") is None
    assert not keys.is_slot("obj_17_0AF3")
    assert not keys.is_slot("my_obj_17_0af3")


@given(
    model=st.from_regex(r"[A-Za-z0-9./_@ %ä-]{1,40}", fullmatch=True),
    world=st.integers(1, 512),
    chunk=st.integers(-(2**63), 2**64),
    dtype=st.sampled_from(keys.DTYPES),
)
def test_what_lmcache_writes_is_read_back(model: str, world: int, chunk: int, dtype: str) -> None:
    found = keys.parse(written(model, world, world - 1, f"{chunk:x}", dtype))
    flat = model.replace("/", "_").replace("@", "_")
    assert found == KvKey(flat, world, world - 1, f"{chunk:x}", dtype)


def test_every_dtype_of_kvlab_size_has_a_name_in_keys() -> None:
    from kvlab.kvcache.geometry import DTYPE_BYTES

    assert set(keys.KV_DTYPES) == set(DTYPE_BYTES)
    assert {name for names in keys.KV_DTYPES.values() for name in names} <= set(keys.DTYPES)
