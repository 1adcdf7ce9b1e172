"""Whatever would make stored KV invalid changes the epoch, and a bucket of another epoch is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kvlab.errors import KvlabError
from kvlab.kvcache import epoch
from kvlab.kvcache.profile import ProfileSpec


def of(values: dict[str, Any], **changes: Any) -> str:
    spec = ProfileSpec.from_mapping(values | changes)
    return epoch.of(spec, spec.geometry())


@pytest.mark.parametrize(
    "changes",
    [
        {"revision": "b"},
        {"served_model_name": "other"},
        {"vllm": "0.24.0"},
        {"lmcache": "0.5.2"},
        {"tp": 2},
        {"pp": 2},
        {"chunk_size": 512},
        {"kv_dtype": "fp8"},
    ],
)
def test_what_makes_old_kv_wrong_changes_the_epoch(
    in_process: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert of(in_process, **changes) != of(in_process)


@pytest.mark.parametrize(
    "changes",
    [{"endpoints": ["http://10.0.0.9:9020"]}, {"bucket": "kv-2"}, {"secret_key": "new"}, {"api_port": 1}],
)
def test_what_leaves_kv_valid_leaves_the_epoch(in_process: dict[str, Any], changes: dict[str, Any]) -> None:
    assert of(in_process, **changes) == of(in_process)


def test_http_and_rdma_share_an_epoch_for_they_store_the_same_objects(in_process: dict[str, Any]) -> None:
    assert of(in_process, name="s3-http") == of(in_process, name="s3-rdma")


def test_a_bucket_of_another_epoch_is_refused_and_says_how_to_go_on() -> None:
    epoch.compare("kv", None, "aaa")
    epoch.compare("kv", "aaa", "aaa")
    with pytest.raises(KvlabError, match="bucket of the new epoch"):
        epoch.compare("kv", "bbb", "aaa")


def test_a_bucket_name_is_prefix_and_epoch_and_never_too_long(in_process: dict[str, Any]) -> None:
    found = of(in_process)
    assert epoch.bucket_name("kv-lab", found) == f"kv-lab-{found}"
    assert len(epoch.bucket_name("x" * 50, found)) == 63
    with pytest.raises(KvlabError, match="too long"):
        epoch.bucket_name("x" * 51, found)
