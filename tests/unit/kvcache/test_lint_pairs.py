"""Rules as pairs: the bad value has the finding, the good one beside it has not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from lint_files import GOOD_ENV, P, arguments, context, ids, judged, put, rendered

from kvlab.kvcache import lint
from kvlab.kvcache.files import context_of
from kvlab.kvcache.profile import ProfileSpec

E = ("extra_config",)


@pytest.mark.parametrize(
    ("path", "bad", "good", "expected"),
    [
        (("nixl_buffer_size",), "8GB", 1 << 26, "LMC006"),
        ((*E, "enable_nixl_storage"), "false", True, "LMC053"),
        ((*E, "nixl_async_put"), "false", False, "LMC053"),
        ((*E, "nixl_presence_cache"), 0, False, "LMC053"),
        ((*E, "nixl_enable_prog_thread"), "no", False, "LMC053"),
        (("enable_async_loading",), True, False, "LMC054"),
        (("pre_caching_hash_algorithm",), "sha512", "sha256_cbor", "LMC057"),
        (("max_local_cpu_size",), 512, 511, "LMC058"),
        ((*E, "nixl_endpoint_list"), ["http://8.8.8.8:9020"], ["https://8.8.8.8:9021"], "NIX017"),
    ],
)
def test_a_key_of_lmcache_yaml(
    in_process: dict[str, Any], path: tuple[str, ...], bad: Any, good: Any, expected: str
) -> None:
    geometry = ProfileSpec.from_mapping(in_process).geometry()
    ctx = context(geometry=geometry, max_tokens=16_384)
    assert expected in judged(rendered(in_process), path, bad, ctx)
    assert expected not in judged(rendered(in_process), path, good, ctx)


@pytest.mark.parametrize(
    ("release", "keys", "expected"),
    [
        ("0.4.5", {"nixl_path": ["/a", "/b"], "nixl_pool_size": 9}, {"LMC055"}),
        ("0.4.5", {"nixl_path": "/a", "nixl_pool_size": 9}, set()),
        ("0.5.6", {"nixl_path": ["/a", "/b"], "nixl_pool_size": 9}, set()),
        ("0.5.6", {"nixl_path": ["/a", "/b"], "nixl_pool_size": 0}, {"LMC055"}),
        ("0.5.6", {"nixl_path": "/a", "nixl_path_sharding": "by_rank"}, {"LMC056"}),
        ("0.5.6", {"nixl_path": "/a", "nixl_path_sharding": "by_gpu"}, set()),
    ],
)
def test_folders_of_a_file_back_end(
    in_process: dict[str, Any], release: str, keys: dict[str, Any], expected: set[str]
) -> None:
    values = rendered(in_process, name="file", file_path="/mnt", lmcache=release)
    values["extra_config"] |= keys
    found = ids(yaml.safe_dump(values), context(release, profile="file"))
    assert found & {"LMC055", "LMC056"} == expected


@pytest.mark.parametrize(("nixl", "found"), [("1.3.2", True), ("1.4.0", False)])
def test_a_parameter_that_this_nixl_does_not_have_yet(
    in_process: dict[str, Any], nixl: str, found: bool
) -> None:
    text = yaml.safe_dump(put(rendered(in_process), (*P, "throughput_target_gbps"), "400"))
    assert ("NIX022" in ids(text, context(nixl=nixl))) == found


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"LMCACHE_CONFIG_FILE": None}, "ENV010"),
        ({"LMCACHE_FORCE_SKIP_SAVE": "0"}, "ENV012"),
        ({"AWS_SECRET_ACCESS_KEY": None}, "ENV013"),
        ({"AWS_ACCESS_KEY_ID": None}, "ENV013"),
    ],
)
def test_the_environment(in_process: dict[str, Any], changes: dict[str, str | None], expected: str) -> None:
    text = yaml.safe_dump(rendered(in_process))
    env = {name: value for name, value in (GOOD_ENV | changes).items() if value is not None}
    assert expected in ids(text, context(env=env))
    assert expected not in ids(text, context())


def test_an_endpoint_of_the_environment_is_judged_where_the_file_names_none(
    in_process: dict[str, Any],
) -> None:
    text = yaml.safe_dump(put(rendered(in_process), (*P, "endpoint_override"), ...))
    assert "NIX017" in ids(text, context(env=GOOD_ENV | {"AWS_ENDPOINT_OVERRIDE": "http://8.8.8.8:9020"}))
    assert "NIX017" not in ids(
        text, context(env=GOOD_ENV | {"AWS_ENDPOINT_OVERRIDE": "http://10.0.0.8:9020"})
    )


def test_no_endpoint_is_judged_twice_where_a_list_overrides_it(in_process: dict[str, Any]) -> None:
    values = put(rendered(in_process), (*E, "nixl_endpoint_list"), ["http://8.8.8.8:9020"])
    text = yaml.safe_dump(put(values, (*P, "endpoint_override"), ...))
    env = GOOD_ENV | {"AWS_ENDPOINT_OVERRIDE": "http://8.8.8.8:9020"}
    found = [f for f in lint.lint(text, "x", context(env=env)) if f.id == "NIX017"]
    assert [f.key for f in found] == ["extra_config.nixl_endpoint_list.0"]


@pytest.mark.parametrize(("mode", "found"), [(0o600, False), (0o640, True), (0o644, True)])
def test_a_secret_in_an_environment_file_that_others_may_read(
    tmp_path: Path, in_process: dict[str, Any], mode: int, found: bool
) -> None:
    file = tmp_path / "secret.env"
    file.write_text("AWS_ACCESS_KEY_ID=a\nAWS_SECRET_ACCESS_KEY=b\n")
    file.chmod(mode)
    ctx = context_of(lmcache="0.5.3", nixl="1.5.1", env_files=[str(file)])
    assert ("ENV011" in ids(yaml.safe_dump(rendered(in_process)), ctx)) == found


def test_an_environment_file_without_a_secret_may_be_read_by_all(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("PYTHONHASHSEED=0\nAWS_SECRET_ACCESS_KEY=\n")
    file.chmod(0o644)
    assert context_of(lmcache="0.5.3", nixl="1.5.1", env_files=[str(file)]).exposed == {}


def vllm(in_process: dict[str, Any], *more: str, extra: dict[str, Any] | None = None) -> str:
    """vllm.args of an in-process profile with more arguments, or settings of its connector."""
    args = json.loads(arguments(in_process | {"model": "lab/model"}, "vllm.args", "nothing", "nothing"))
    if extra is not None:
        at = args.index("--kv-transfer-config") + 1
        args[at] = json.dumps(json.loads(args[at]) | {"kv_connector_extra_config": extra})
    return json.dumps([*args, *more])


def test_a_model_given_by_its_path_is_found_in_process_only(
    values: dict[str, Any], in_process: dict[str, Any]
) -> None:
    by_path = arguments(in_process | {"model": "/models/lab"}, "vllm.args", "nothing", "nothing")
    assert "VLM008" in ids(by_path, context(), "vllm.args")
    assert "VLM008" not in ids(vllm(in_process), context(), "vllm.args")
    in_mp_mode = arguments(values | {"model": "/models/lab"}, "vllm.args", "nothing", "nothing")
    assert "VLM008" not in ids(in_mp_mode, context("0.5.6"), "vllm.args")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--max-num-batched-tokens", "8192"], False),
        (["--max-num-batched-tokens", "2000000"], True),
        (["--no-enable-chunked-prefill"], False),
        (["--no-enable-chunked-prefill", "--max-model-len", "x"], False),
    ],
)
def test_an_engine_step_that_the_pool_cannot_stage(
    in_process: dict[str, Any], more: list[str], expected: bool
) -> None:
    ctx = context(geometry=ProfileSpec.from_mapping(in_process).geometry(), max_tokens=16_384)
    assert ("VLM009" in ids(vllm(in_process, *more), ctx, "vllm.args")) == expected


def test_a_whole_prompt_in_one_step_is_found_where_it_is_long_or_its_size_not_known(
    in_process: dict[str, Any],
) -> None:
    text = vllm(in_process, "--no-enable-chunked-prefill")
    long = context(geometry=ProfileSpec.from_mapping(in_process).geometry(), max_tokens=2_000_000)
    assert "VLM009" in ids(text, long, "vllm.args")
    assert "VLM009" in ids(text, context(), "vllm.args")
    assert "VLM009" not in ids(vllm(in_process), context(), "vllm.args")


@pytest.mark.parametrize(
    ("extra", "severities"),
    [
        ({"lmcache.local_cpu": True}, ["warning"]),
        ({"lmcache.local_cpo": True}, ["error"]),
        ({"other.setting": 1}, []),
        ({}, []),
    ],
)
def test_settings_of_lmcache_in_the_connectors_configuration(
    in_process: dict[str, Any], extra: dict[str, Any], severities: list[str]
) -> None:
    found = lint.lint(vllm(in_process, extra=extra), "vllm.args", context())
    assert [f.severity for f in found if f.id == "VLM010"] == severities


@pytest.mark.parametrize(("profile", "severity"), [("s3-rdma", "error"), ("s3-http", "warning")])
def test_sleep_mode(in_process: dict[str, Any], profile: str, severity: str) -> None:
    ctx = context(profile=profile)
    found = lint.lint(vllm(in_process, "--enable-sleep-mode"), "vllm.args", ctx)
    assert [f.severity for f in found if f.id == "VLM011"] == [severity]
    assert "VLM011" not in ids(vllm(in_process), ctx, "vllm.args")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"type":"nixl_store","backend":"POSIX"', '"type":"nixl_store_dynamic","backend":"OBJ"', "MPS012"),
        ('"backend":"POSIX"', '"backend":"POSIXX"', "MPS013"),
        ('"file_path"', '"path"', "MPS014"),
        ('"use_direct_io"', '"direct"', "MPS014"),
        ('"file_size"', '"size"', "MPS015"),
        ('"use_direct_io":"true"', '"use_direct_io":true', "NIX003"),
    ],
)
def test_a_file_back_end_of_the_server(values: dict[str, Any], old: str, new: str, expected: str) -> None:
    spec = values | {"name": "file", "file_path": "/mnt"}
    ctx = context("0.5.6", vllm="0.32.0", profile="file")
    good = arguments(spec, "lmcache.args", "nothing", "nothing")
    assert old in json.loads(good)[-1]
    assert expected not in ids(good, ctx, "lmcache.args")
    assert expected in ids(arguments(spec, "lmcache.args", old, new), ctx, "lmcache.args")


def test_a_dynamic_store_of_files_is_no_error(values: dict[str, Any]) -> None:
    spec = values | {"name": "file", "file_path": "/mnt"}
    text = arguments(spec, "lmcache.args", '"type":"nixl_store"', '"type":"nixl_store_dynamic"')
    assert "MPS012" not in ids(text, context("0.5.6", vllm="0.32.0", profile="file"), "lmcache.args")


def test_a_key_of_cufile_json_that_is_given_twice() -> None:
    once = '{"properties": {"allow_compat_mode": false}}'
    twice = '{"properties": {"allow_compat_mode": true, "allow_compat_mode": false}}'
    assert "CUF001" not in ids(once, context(), "cufile.json")
    assert "CUF001" in ids(twice, context(), "cufile.json")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"use_layerwise": True}, {"LMC013"}),
        ({"nixl_endpoint_list": ["http://h:1"]}, {"LMC049"}),
        ({"nixl_backend": "POSIX", "nixl_buffer_device": "cuda"}, {"LMC024"}),
    ],
)
def test_what_does_not_go_with_files(
    in_process: dict[str, Any], changes: dict[str, Any], expected: set[str]
) -> None:
    values = rendered(in_process, name="file", file_path="/mnt", gds=True)
    for key, value in changes.items():
        (values["extra_config"] if key in ("nixl_endpoint_list", "nixl_backend") else values)[key] = value
    found = ids(yaml.safe_dump(values), context(profile="file"))
    assert found & {"LMC013", "LMC024", "LMC049"} == expected
