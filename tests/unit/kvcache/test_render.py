"""A profile directory holds what the programs need, spelt for their versions, and no secret outside secret.env."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kvlab.errors import KvlabError
from kvlab.kvcache import render
from kvlab.kvcache.lint import environment
from kvlab.kvcache.profile import ProfileSpec


def files(values: dict[str, Any], **changes: Any) -> dict[str, str]:
    spec = ProfileSpec.from_mapping(values | changes)
    return {name: file.content for name, file in render.profile(spec).files.items()}


def flag(args: list[str], name: str) -> str:
    return args[args.index(name) + 1]


def adapter(rendered: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(flag(json.loads(rendered["lmcache.args"]), "--l2-adapter"))
    return found


def test_each_profile_has_its_own_set_of_files(values: dict[str, Any]) -> None:
    common = {"env", "vllm.args", "profile.json"}
    assert files(values, name="baseline", mode="none").keys() == common
    assert files(values, name="s3-http").keys() == common | {"secret.env", "lmcache.args"}
    assert files(values).keys() == common | {"secret.env", "lmcache.args", "cufile.json", "cuobj.json"}
    assert files(values, name="file", file_path="/mnt/kv").keys() == common | {"lmcache.args"}


def test_in_process_mode_has_a_yaml_and_no_server(in_process: dict[str, Any]) -> None:
    rendered = files(in_process)
    assert "lmcache.yaml" in rendered
    assert "lmcache.args" not in rendered


def test_the_secret_is_in_secret_env_alone_and_that_is_private(
    values: dict[str, Any], in_process: dict[str, Any]
) -> None:
    for spec in (values, in_process):
        rendered = render.profile(ProfileSpec.from_mapping(spec)).files
        secret = rendered["secret.env"]
        assert (secret.mode, secret.secret) == (0o600, True)
        assert environment.parse(secret.content, "") == {
            "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "s3cr3t+/=",
        }
        for name, file in rendered.items():
            if name != "secret.env":
                assert not file.secret
                assert "s3cr3t" not in file.content, name
                assert "AKIDEXAMPLE" not in file.content, name


def test_a_spec_does_not_show_its_secret(values: dict[str, Any]) -> None:
    assert "s3cr3t" not in repr(ProfileSpec.from_mapping(values))


def test_one_chunk_is_one_object_of_the_server(values: dict[str, Any]) -> None:
    args = json.loads(files(values)["lmcache.args"])
    assert flag(args, "--l1-align-bytes") == str(256 * 4096)
    assert flag(args, "--chunk-size") == "256"


@pytest.mark.parametrize(
    ("layers", "slot", "pieces"),
    [(8, 1 << 20, 1), (12, 1 << 19, 3), (9, 1 << 21, 1)],
)
def test_a_stored_object_is_a_power_of_two_exact_where_few_pieces_make_a_chunk(
    values: dict[str, Any], layers: int, slot: int, pieces: int
) -> None:
    values["model_config"]["num_hidden_layers"] = layers
    rendered = files(values)
    assert flag(json.loads(rendered["lmcache.args"]), "--l1-align-bytes") == str(slot)
    facts = json.loads(rendered["profile.json"])
    assert (facts["slot_bytes"], facts["slots_per_chunk"]) == (slot, pieces)
    assert facts["pool_size"] >= 16 * pieces * 64


def test_a_pool_of_files_stays_under_the_limit_of_open_files(values: dict[str, Any]) -> None:
    found = adapter(files(values, name="file", file_path="/mnt/kv", max_model_len=131_072))
    per_file = int(found["backend_params"]["file_size"]) // (256 * 4096)
    assert found["pool_size"] < 512
    assert found["pool_size"] * per_file >= 16 * 131_072 // 256


def test_the_pool_has_room_for_many_longest_requests(values: dict[str, Any]) -> None:
    assert adapter(files(values))["pool_size"] >= 16 * 16_384 // 256
    assert adapter(files(values, max_model_len=256))["pool_size"] == render.MIN_POOL
    assert adapter(files(values, pool_size=7))["pool_size"] == 7


def test_the_dram_tier_holds_two_of_the_longest_requests(values: dict[str, Any]) -> None:
    big = values | {"max_model_len": 600_000}
    args = json.loads(files(big)["lmcache.args"])
    assert float(flag(args, "--l1-size-gb")) * 1024**3 >= 2 * 600_000 * 4096


def test_the_measured_traps_of_mp_mode_are_avoided(values: dict[str, Any]) -> None:
    rendered = files(values)
    args = json.loads(rendered["lmcache.args"])
    assert flag(args, "--supported-transfer-mode") == "auto"
    assert flag(args, "--l2-store-policy") == "skip_l1"
    assert flag(args, "--shm-name") == "kvlab-1"
    vllm = json.loads(rendered["vllm.args"])
    assert "--no-enable-prefix-caching" in vllm
    assert json.loads(flag(vllm, "--kv-transfer-config"))["kv_connector"] == "LMCacheMPConnector"


def test_only_rdma_asks_for_the_accelerated_engine(values: dict[str, Any]) -> None:
    rdma, http = adapter(files(values)), adapter(files(values, name="s3-http"))
    assert rdma["backend_params"]["accelerated"] == "true"
    assert rdma["backend_params"]["type"] == "dell"
    assert not {"accelerated", "type"} & http["backend_params"].keys()
    assert {k: v for k, v in rdma["backend_params"].items() if k not in ("accelerated", "type")} == http[
        "backend_params"
    ]


def test_nixl_gets_strings_only(values: dict[str, Any]) -> None:
    assert all(isinstance(v, str) for v in adapter(files(values))["backend_params"].values())


def test_both_generations_of_the_client_find_the_same_settings(values: dict[str, Any]) -> None:
    rendered = files(values)
    env = environment.parse(rendered["env"], "")
    assert rendered["cufile.json"] == rendered["cuobj.json"]
    assert env["CUFILE_ENV_PATH_JSON"].endswith("/cufile.json")
    assert env["CUOBJ_ENV_PATH_JSON"].endswith("/cuobj.json")
    properties = json.loads(rendered["cufile.json"])["properties"]
    assert properties["rdma_dev_addr_list"] == ["127.0.0.1"]
    assert properties["allow_compat_mode"] is False


def test_the_environment_fixes_the_hash_seed_and_calms_the_sdk(values: dict[str, Any]) -> None:
    env = environment.parse(files(values, name="s3-http")["env"], "")
    assert env["PYTHONHASHSEED"] == "0"
    assert env["AWS_REQUEST_CHECKSUM_CALCULATION"] == "when_required"
    assert env["AWS_RESPONSE_CHECKSUM_VALIDATION"] == "when_required"
    assert env["LD_LIBRARY_PATH"] == "/opt/cuobj"
    assert "CUFILE_ENV_PATH_JSON" not in env


@pytest.mark.parametrize("name", ["baseline", "s3-http", "s3-rdma"])
def test_every_profile_of_a_cpu_lab_computes_with_the_same_cores(values: dict[str, Any], name: str) -> None:
    spec = {"name": name, "mode": "none" if name == "baseline" else "mp"}
    env = environment.parse(files(values, **spec, device="cpu")["env"], "")
    assert env["VLLM_CPU_NUM_OF_RESERVED_CPU"] == "0"
    assert "VLLM_CPU_NUM_OF_RESERVED_CPU" not in files(values, **spec, device="cuda")["env"]


@pytest.mark.parametrize(
    ("lmcache", "sized"), [("0.4.5", True), ("0.4.6", True), ("0.5.3", False), ("0.5.6", False)]
)
def test_a_cpu_buffer_is_sized_where_that_release_looks_for_it(
    in_process: dict[str, Any], lmcache: str, sized: bool
) -> None:
    out = yaml.safe_load(files(in_process, name="s3-http", lmcache=lmcache)["lmcache.yaml"])
    assert out["nixl_buffer_device"] == "cpu"
    assert ("nixl_buffer_size" in out) == sized
    assert out["max_local_cpu_size"] * 1024**3 >= 16_384 * 4096


def test_the_in_process_rdma_file_is_the_documents_with_its_faults_mended(in_process: dict[str, Any]) -> None:
    out = yaml.safe_load(files(in_process)["lmcache.yaml"])
    assert out["nixl_buffer_device"] == "cuda"
    assert out["nixl_buffer_size"] == 16_384 * 4096
    assert (out["local_cpu"], out["save_unfull_chunk"]) == (False, False)
    assert out["extra_config"]["nixl_pool_size"] == 0
    assert out["extra_config"]["nixl_backend_params"]["req_checksum"] == "required"


def test_several_data_nodes_are_dealt_out_to_the_ranks(in_process: dict[str, Any]) -> None:
    nodes = ["http://10.0.0.1:9020", "http://10.0.0.2:9020"]
    out = yaml.safe_load(files(in_process, endpoints=nodes)["lmcache.yaml"])
    assert out["extra_config"]["nixl_endpoint_list"] == nodes
    one = yaml.safe_load(files(in_process)["lmcache.yaml"])
    assert "nixl_endpoint_list" not in one["extra_config"]


def test_in_process_vllm_uses_its_first_runner_from_0_24_on(in_process: dict[str, Any]) -> None:
    assert environment.parse(files(in_process)["env"], "")["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    old = environment.parse(files(in_process, vllm="0.19.1", lmcache="0.4.5")["env"], "")
    assert "VLLM_USE_V2_MODEL_RUNNER" not in old


@pytest.mark.parametrize(("gds", "backend"), [(False, "POSIX"), (True, "GDS_MT")])
def test_the_file_profile_uses_gds_where_it_is_there(values: dict[str, Any], gds: bool, backend: str) -> None:
    device = "cuda" if gds else "cpu"
    found = adapter(files(values, name="file", file_path="/mnt/kv", gds=gds, device=device))
    assert found["backend"] == backend
    assert found["backend_params"]["file_path"] == "/mnt/kv"
    assert found["backend_params"]["use_direct_io"] == "true"


def test_in_process_the_file_profile_says_where_and_how_in_its_own_words(in_process: dict[str, Any]) -> None:
    out = yaml.safe_load(files(in_process, name="file", file_path="/mnt/kv", gds=True)["lmcache.yaml"])
    extra = out["extra_config"]
    assert (extra["nixl_backend"], extra["nixl_path"], extra["use_direct_io"]) == ("GDS_MT", "/mnt/kv", True)
    assert out["nixl_buffer_device"] == "cuda"
    assert extra["nixl_pool_size"] >= render.MIN_POOL


def test_files_that_would_outlive_their_server_are_refused_for_no_epoch_guards_them(
    in_process: dict[str, Any],
) -> None:
    with pytest.raises(KvlabError, match="no cache epoch"):
        files(in_process, name="file", file_path="/mnt/kv", pool_size=0)


def test_parallel_ranks_reach_vllm(in_process: dict[str, Any]) -> None:
    vllm = json.loads(files(in_process, tp=2, kv_dtype="fp8")["vllm.args"])
    assert flag(vllm, "--tensor-parallel-size") == "2"
    assert flag(vllm, "--kv-cache-dtype") == "fp8"


def test_profile_json_says_what_a_measurement_needs(values: dict[str, Any]) -> None:
    facts = json.loads(files(values)["profile.json"])
    assert facts["simulated"] is True
    assert (facts["expected_path"], facts["engine"], facts["mode"]) == ("rdma", "dell", "mp")
    assert facts["chunk_bytes"] == 256 * 4096
    assert facts["bucket"] == "kv-lab"
    base = json.loads(files(values, name="baseline", mode="none")["profile.json"])
    assert (base["expected_path"], base["bucket"], base["endpoint"]) == ("none", None, None)


def test_rendering_twice_gives_the_same_bytes(values: dict[str, Any]) -> None:
    assert files(values) == files(values)


class TaggedText(str):
    """Ansible hands over strings of its own class."""

    __slots__ = ()


def test_strings_of_ansibles_own_class_become_plain_yaml(in_process: dict[str, Any]) -> None:
    tagged = in_process | {"bucket": TaggedText("kv-lab"), "endpoints": [TaggedText("http://127.0.0.1:9020")]}
    assert "kv-lab" in files(tagged)["lmcache.yaml"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"name": "s3"}, "baseline"),
        ({"mode": "none"}, "only baseline"),
        ({"name": "baseline"}, "only baseline"),
        ({"mode": "in-process"}, "no CPU path"),
        ({"device": "tpu"}, "tpu"),
        ({"endpoints": []}, "no endpoint"),
        ({"endpoints": ["127.0.0.1:9020"]}, "127.0.0.1:9020"),
        ({"endpoints": ["http://h:9020/bucket"]}, "form"),
        ({"endpoints": ["http://a:1", "https://b:1"]}, "mix"),
        ({"endpoints": ["http://h:99999"]}, "form"),
        ({"bucket": "Not_A_Bucket"}, "bucket name"),
        ({"access_key": ""}, "access key is missing"),
        ({"secret_key": ""}, "secret key is missing"),
        ({"secret_key": "with space"}, "another key"),
        ({"secret_key": "a\nb"}, "another key"),
        ({"rdma_dev_addr_list": []}, "empty"),
        ({"rdma_dev_addr_list": ["mlx5_0"]}, "not an IP address"),
        ({"rdma_dev_addr_list": ["0.0.0.0"]}, "not an address of a NIC"),
        ({"name": "file"}, "file_path"),
        ({"name": "file", "file_path": "kv"}, "file_path"),
        ({"name": "file", "file_path": "/mnt/kv", "gds": True}, "serves on the CPU"),
        (
            {"name": "file", "file_path": "/mnt/kv", "gds": True, "device": "cuda", "direct_io": False},
            "direct_io",
        ),
        ({"api_port": 0}, "api_port"),
        ({"max_model_len": 0}, "max_model_len"),
        ({"pool_size": 0}, "pool_size"),
        ({"lmcache": "0.4.5"}, "0.4.5"),
        ({"vllm": "latest"}, "latest"),
        ({"kv_dtype": "fp32"}, "fp32"),
        ({"simulated": "yes"}, "simulated"),
        ({"max_model_len": "many"}, "max_model_len"),
        ({"endpoints": "http://h:1"}, "list of strings"),
        ({"colour": "red"}, "colour"),
        ({"library_dirs": ["/with\nbreak"]}, "LD_LIBRARY_PATH"),
    ],
)
def test_a_profile_that_cannot_work_is_refused_in_a_sentence(
    values: dict[str, Any], changes: dict[str, Any], word: str
) -> None:
    with pytest.raises(KvlabError, match=word):
        files(values, **changes)


def test_a_missing_field_is_named(values: dict[str, Any]) -> None:
    del values["max_model_len"]
    with pytest.raises(KvlabError, match="max_model_len"):
        files(values)


def test_nothing_that_is_rendered_opens_lmcaches_internal_api_or_its_run_script(
    values: dict[str, Any], in_process: dict[str, Any]
) -> None:
    for spec in (values, in_process):
        text = "\n".join(files(spec).values()).lower().replace("-", "_")
        assert "chunk_size" in text
        assert "internal_api" not in text
        assert "run_script" not in text


def test_an_endpoint_with_tls_is_given_with_what_it_is_trusted_by(values: dict[str, Any]) -> None:
    secure = adapter(files(values, endpoints=["https://store:9021"], ca_bundle="/etc/kvlab/ca.pem"))
    given = secure["backend_params"]
    assert (given["scheme"], given["ca_bundle"]) == ("https", "/etc/kvlab/ca.pem")
    assert "ca_bundle" not in adapter(files(values))["backend_params"]
