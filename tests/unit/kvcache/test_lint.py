"""Each trap is found by its id, at its key and line; a good file has no finding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from lint_files import GOOD_ENV, P, arguments, context, ids, judged, put, rendered

from kvlab.errors import KvlabError
from kvlab.kvcache import knownkeys, lint, render
from kvlab.kvcache.files import context_of
from kvlab.kvcache.lint import environment
from kvlab.kvcache.profile import ProfileSpec

FIXTURES = Path(__file__).parents[2] / "fixtures" / "kvcache"


def test_a_rendered_file_has_nothing_but_the_defect_of_its_release(in_process: dict[str, Any]) -> None:
    geometry = ProfileSpec.from_mapping(in_process).geometry()
    found = lint.lint(
        yaml.safe_dump(rendered(in_process)),
        "x",
        context(geometry=geometry, max_tokens=16_384, file_mode=0o644),
    )
    assert [finding.id for finding in found] == ["STK003"]


def test_mp_profiles_as_rendered_have_no_finding(values: dict[str, Any]) -> None:
    for name in ("s3-http", "s3-rdma", "file"):
        spec = ProfileSpec.from_mapping(values | {"name": name, "file_path": "/mnt"})
        ctx = context(
            "0.5.6",
            vllm="0.32.0",
            profile=name,
            geometry=spec.geometry(),
            max_tokens=16_384,
            addresses=frozenset(("127.0.0.1",)),
        )
        for file, content in render.profile(spec).files.items():
            if file in ("lmcache.args", "vllm.args", "cufile.json", "cuobj.json"):
                assert lint.lint(content.content, file, ctx) == [], (name, file)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("extra_confg",), {}, "LMC005"),
        (("nixl_bufer_size",), 1, "LMC005"),
        (("nixl_pool_size",), 0, "LMC005"),
        (("controller_url",), "x", "LMC004"),
        (("local_cpu",), "no", "LMC006"),
        (("chunk_size",), "big", "LMC006"),
        (("max_local_cpu_size",), "much", "LMC006"),
        (("extra_config",), ["a"], "LMC002"),
        (("extra_config",), "{", "LMC002"),
        (("extra_config",), '{"enable_nixl_storage": false}', "LMC003"),
        (("extra_config", "use_direct_io"), False, "LMC040"),
        (("extra_config", "enable_nixl_storage"), False, "LMC003"),
        (("extra_config", "enable_nixl_storage"), ..., "LMC003"),
        (("extra_config", "nixl_buffer_device"), "cuda", "LMC007"),
        (("extra_config", "nixl_pol_size"), 0, "LMC008"),
        (("extra_config", "something_else"), 0, "LMC008"),
        (P, ..., "LMC009"),
        (("extra_config", "nixl_backend"), ..., "LMC010"),
        (("extra_config", "nixl_backend"), "obj", "LMC011"),
        (("extra_config", "nixl_backend"), "GDS", "LMC012"),
        (("extra_config", "nixl_pool_size"), ..., "LMC014"),
        (("extra_config", "nixl_pool_size"), None, "LMC014"),
        (("extra_config", "nixl_pool_size"), "0", "LMC015"),
        (("extra_config", "nixl_pool_size"), False, "LMC015"),
        (("extra_config", "nixl_pool_size"), -1, "LMC016"),
        (("extra_config", "nixl_pool_size"), 100, "LMC017"),
        (("save_unfull_chunk",), True, "LMC019"),
        (("nixl_buffer_device",), ..., "LMC020"),
        (("nixl_buffer_device",), "gpu", "LMC021"),
        (("nixl_buffer_device",), "cpu", "LMC025"),
        (("nixl_buffer_device",), "cpu", "LMC026"),
        ((*P, "accelerated"), ..., "LMC023"),
        (("nixl_buffer_size",), ..., "LMC027"),
        (("nixl_buffer_size",), 0, "LMC028"),
        (("nixl_buffer_size",), 1 << 20, "LMC029"),
        (("nixl_buffer_size",), (1 << 26) + 1, "LMC030"),
        (("nixl_buffer_size",), 8 << 30, "LMC031"),
        (("local_cpu",), True, "LMC032"),
        (("local_cpu",), ..., "LMC032"),
        (("max_local_cpu_size",), 0, "LMC033"),
        (("max_local_cpu_size",), 0.01, "LMC034"),
        (("chunk_size",), 250, "LMC035"),
        (("extra_config", "nixl_async_put"), True, "LMC037"),
        (("extra_config", "nixl_presence_cache"), True, "LMC039"),
        (("extra_config", "use_direct_io"), "true", "LMC040"),
        (("extra_config", "nixl_use_hugepages"), True, "LMC041"),
        (("nixl_backends",), ["OBJ"], "LMC042"),
        (("use_layerwise",), True, "LMC043"),
        (("extra_config", "use_gpu_connector_v3"), True, "LMC043"),
        (("lookup_timeout_ms",), 100, "LMC044"),
        (("internal_api_server_enabled",), True, "LMC045"),
        (("extra_config", "nixl_endpoint_list"), [], "LMC047"),
        (("extra_config", "nixl_endpoint_list"), "http://h:1", "LMC047"),
        (("extra_config", "nixl_endpoint_list"), ["http://h:1", "http://h:1"], "LMC048"),
        (("extra_config", "nixl_endpoint_list"), ["h:1"], "NIX015"),
        (("extra_config", "nixl_endpoint_list"), [7], "NIX015"),
        (("extra_config", "nixl_endpoint_list"), ["https://h:1"], "NIX016"),
        (("extra_config", "nixl_endpoint_list"), ["http://h:1"], "LMC050"),
        (("extra_config", "nixl_endpoint_list"), ["http://h:1", "http://i:1"], "LMC051"),
        (P, "x", "NIX001"),
        ((*P, "endpoint_overide"), "http://h:1", "NIX002"),
        ((*P, "accelerated"), True, "NIX003"),
        ((*P, "num_threads"), 4, "NIX003"),
        ((*P, "accelerated"), "True", "NIX004"),
        ((*P, "type"), ..., "NIX006"),
        ((*P, "type"), "del", "NIX006"),
        ((*P, "accelerated"), "false", "NIX007"),
        ((*P, "req_checksum"), "never", "NIX008"),
        ((*P, "req_checksum"), ..., "NIX009"),
        ((*P, "resp_checksum"), "supported", "NIX009"),
        ((*P, "use_virtual_addressing"), "true", "NIX010"),
        ((*P, "crtMinLimit"), "1", "NIX011"),
        ((*P, "endpoint_override"), ..., "NIX012"),
        ((*P, "bucket"), ..., "NIX013"),
        ((*P, "scheme"), ..., "NIX014"),
        ((*P, "endpoint_override"), "127.0.0.1:9020", "NIX015"),
        ((*P, "endpoint_override"), "http://h:port", "NIX015"),
        ((*P, "scheme"), "https", "NIX016"),
        ((*P, "endpoint_override"), "http://8.8.8.8:9020", "NIX017"),
        ((*P, "endpoint_override"), "http://s3.example.org:9020", "NIX017"),
        ((*P, "bucket"), "your-bucket-name", "NIX018"),
        ((*P, "secret_key"), "x", "NIX019"),
        ((*P, "access_key"), "x", "NIX021"),
        ((*P, "accelerated"), ..., "LMC052"),
    ],
)
def test_one_wrong_key_is_found(
    in_process: dict[str, Any], path: tuple[str, ...], value: Any, expected: str
) -> None:
    geometry = ProfileSpec.from_mapping(in_process).geometry()
    ctx = context(geometry=geometry, max_tokens=16_384, file_mode=0o644)
    assert expected in judged(rendered(in_process), path, value, ctx)


@pytest.mark.parametrize(
    ("release", "path", "value", "expected"),
    [
        ("0.4.5", ("nixl_buffer_device",), "cuda:0", "LMC022"),
        ("0.4.5", ("extra_config", "nixl_backend"), "DOCA_MEMOS", "LMC011"),
        ("0.4.5", ("extra_config", "nixl_backend"), "POSIX", "LMC018"),
        ("0.5.6", ("extra_config", "nixl_presence_cache_only"), True, "LMC038"),
        ("0.4.5", ("extra_config", "nixl_presence_cache_only"), True, "LMC008"),
    ],
)
def test_releases_differ(
    in_process: dict[str, Any], release: str, path: tuple[str, ...], value: Any, expected: str
) -> None:
    assert expected in judged(rendered(in_process, lmcache=release), path, value, context(release))


def test_what_0_4_5_refuses_0_5_3_takes(in_process: dict[str, Any]) -> None:
    assert "LMC022" not in judged(rendered(in_process), ("nixl_buffer_device",), "cuda:0", context())


def test_a_wheel_without_the_engine_is_named(in_process: dict[str, Any]) -> None:
    text = yaml.safe_dump(rendered(in_process))
    assert "NIX005" in ids(text, context(nixl="1.1.0"))
    assert "NIX005" in ids(text, context(nixl="1.4.1"))
    assert "NIX005" not in ids(text, context(nixl="1.5.0"))


def test_a_sync_mode_needs_a_nixl_that_has_one(in_process: dict[str, Any]) -> None:
    text = yaml.safe_dump(put(rendered(in_process), ("extra_config", "nixl_sync_mode"), "STRICT"))
    assert "LMC046" in ids(text, context(nixl="1.1.0"))
    assert "LMC046" not in ids(text, context(nixl="1.2.0"))


@pytest.mark.parametrize(
    ("vllm", "lmcache", "expected"),
    [
        ("0.26.0", "0.5.6", {"STK001"}),
        ("0.25.1", "0.5.6", {"STK002"}),
        ("0.25.1", "0.5.3", {"STK003"}),
        ("0.19.0", "0.4.5", {"STK003", "STK004", "STK005"}),
    ],
)
def test_versions_that_do_not_go_together_in_process_are_named(
    in_process: dict[str, Any], vllm: str, lmcache: str, expected: set[str]
) -> None:
    text = yaml.safe_dump(rendered(in_process, lmcache=lmcache))
    assert {i for i in ids(text, context(lmcache, vllm=vllm)) if i.startswith("STK")} == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"PYTHONHASHSEED": None}, "ENV002"),
        ({"PYTHONHASHSEED": "random"}, "ENV002"),
        ({"PYTHONHASHSEED": "-1"}, "ENV002"),
        ({"LMCACHE_LOCAL_CPU": "true"}, "ENV003"),
        ({"LMCACHE_EXTRA_CONFIG": "{}"}, "ENV003"),
        ({"LMCACHE_CHUNK_SIZ": "1"}, "ENV004"),
        ({"AWS_REQUEST_CHECKSUM_CALCULATION": "when_supported"}, "ENV005"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, "ENV006"),
        ({"VLLM_USE_V2_MODEL_RUNNER": None}, "ENV007"),
        ({"CUFILE_ENV_PATH_JSON": None}, "ENV008"),
        ({"CUOBJ_ENV_PATH_JSON": None}, "ENV009"),
        ({"AWS_ACCESS_KEY_ID": None}, "NIX020"),
    ],
)
def test_a_wrong_environment_is_found(
    in_process: dict[str, Any], changes: dict[str, str | None], expected: str
) -> None:
    env = {k: v for k, v in (GOOD_ENV | changes).items() if v is not None}
    text = yaml.safe_dump(rendered(in_process))
    assert expected in ids(text, context(env=env)) - ids(text, context())


def test_a_random_seed_is_not_called_invalid_but_not_fixed(in_process: dict[str, Any]) -> None:
    ctx = context(env=GOOD_ENV | {"PYTHONHASHSEED": "random"})
    (found,) = [f for f in lint.lint(yaml.safe_dump(rendered(in_process)), "x", ctx) if f.id == "ENV002"]
    assert "not fixed" in found.reason


def test_an_environment_that_was_not_given_is_said(in_process: dict[str, Any]) -> None:
    assert "ENV001" in ids(yaml.safe_dump(rendered(in_process)), context(env=None))


GOOD_CUFILE = {
    "execution": {"parallel_io": False},
    "properties": {
        "allow_compat_mode": False,
        "use_pci_p2pdma": True,
        "rdma_peer_type": "dmabuf",
        "rdma_dev_addr_list": ["192.0.2.1"],
    },
}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("propertys",), {}, "CUF003"),
        (("properties",), ..., "CUF004"),
        (("properties", "rdma_dev_adr_list"), [], "CUF005"),
        (("properties", "use_pci_p2pdma"), "true", "CUF006"),
        (("properties", "rdma_dev_addr_list"), [], "CUF007"),
        (("properties", "rdma_dev_addr_list"), ..., "CUF007"),
        (("properties", "rdma_dev_addr_list"), "192.0.2.1", "CUF007"),
        (("properties", "rdma_dev_addr_list"), ["mlx5_0"], "CUF008"),
        (("properties", "rdma_dev_addr_list"), ["0.0.0.0"], "CUF009"),
        (("properties", "rdma_dev_addr_list"), ["2001:db8::1"], "CUF010"),
        (("properties", "rdma_dev_addr_list"), ["192.0.2.2"], "CUF011"),
        (("properties", "rdma_dev_addr_list"), ["192.0.2.1", "192.0.2.1"], "CUF012"),
        (("properties", "allow_compat_mode"), True, "CUF013"),
        (("properties", "allow_compat_mode"), ..., "CUF013"),
        (("properties", "rdma_peer_type"), "dma_buf", "CUF014"),
        (("properties", "rdma_peer_type"), ..., "CUF015"),
        (("properties", "use_pci_p2pdma"), False, "CUF016"),
        (("execution", "parallel_io"), True, "CUF017"),
    ],
)
def test_a_wrong_cufile_setting_is_found(path: tuple[str, ...], value: Any, expected: str) -> None:
    ctx = context(addresses=frozenset(("192.0.2.1",)))
    assert ids(json.dumps(GOOD_CUFILE), ctx, "cufile.json") == set()
    assert expected in ids(json.dumps(put(GOOD_CUFILE, path, value)), ctx, "cufile.json")


def test_nvidias_comments_and_tabs_do_not_hide_the_rest() -> None:
    text = '{\n\t// NICs\n\t"properties": {\n\t\t"rdma_dev_addr_list": [ ]\n\t}\n}\n'
    found = {finding.id: finding for finding in lint.lint(text, "cufile.json", context())}
    assert "CUF002" in found
    assert found["CUF007"].line == 4


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("lmcache.args", "--shm-name", "--shm-nam", "MPS001"),
        ("lmcache.args", "--supported-transfer-mode", None, "MPS002"),
        ("lmcache.args", "skip_l1", "default", "MPS003"),
        ("lmcache.args", "--l2-adapter", None, "MPS004"),
        ("lmcache.args", "--l1-align-bytes", None, "MPS005"),
        ("lmcache.args", "1048576", "4096", "MPS005"),
        ("lmcache.args", "1048576", "1048577", "MPS011"),
        ("lmcache.args", "--shm-name", "--run-script-api-enabled", "MPS016"),
        ("lmcache.args", '"type":"nixl_store"', "nonsense", "MPS007"),
        ("lmcache.args", '"bucket":', '"secret_key":"x","access_key":"y","bucket":', "MPS008"),
        ("lmcache.args", '"pool_size":', '"pool_size":0,"x":', "MPS009"),
        ("lmcache.args", '"pool_size":', '"pool_size":3,"x":', "MPS010"),
        ("lmcache.args", '"accelerated":"true"', '"accelerated":true', "NIX003"),
        ("vllm.args", "--no-enable-prefix-caching", None, "VLM001"),
        ("vllm.args", "--kv-transfer-config", None, "VLM002"),
        ("vllm.args", '{"kv_connector"', "{", "VLM004"),
        ("vllm.args", "LMCacheMPConnector", "LMCacheMPConnecto", "VLM005"),
        ("vllm.args", "kv_both", "kv_producer", "VLM006"),
        ("vllm.args", "LMCacheMPConnector", "LMCacheConnectorV1", "STK001"),
        ("vllm.args", '"kv_role"', '"kv_load_failure_policy":"recompute","kv_role"', "VLM007"),
    ],
)
def test_a_wrong_argument_is_found(
    values: dict[str, Any], file: str, old: str, new: str | None, expected: str
) -> None:
    geometry = ProfileSpec.from_mapping(values).geometry()
    ctx = context("0.5.6", vllm="0.32.0", geometry=geometry, max_tokens=16_384)
    assert expected in ids(arguments(values, file, old, new), ctx, file)


@pytest.mark.parametrize(
    ("version", "host", "severity"),
    [("0.5.6", "0.0.0.0", None), ("0.5.5", "127.0.0.1", "warning"), ("0.5.3", "0.0.0.0", "error")],
)
def test_a_server_that_runs_what_is_sent_to_it_is_found(
    values: dict[str, Any], version: str, host: str, severity: str | None
) -> None:
    text = arguments(values | {"lmcache": version, "host": host}, "lmcache.args", "nothing", "nothing")
    found = lint.lint(text, "lmcache.args", context(version))
    assert [one.severity for one in found if one.id == "MPS016"] == [severity] * (severity is not None)


def test_a_dram_tier_smaller_than_a_request_is_found(values: dict[str, Any]) -> None:
    text = arguments(values | {"l1_size_gb": 0.03125}, "lmcache.args", "nothing", "nothing")
    geometry = ProfileSpec.from_mapping(values).geometry()
    assert "MPS006" in ids(text, context("0.5.6", geometry=geometry, max_tokens=16_384), "lmcache.args")


def test_a_baseline_with_a_connector_is_found(values: dict[str, Any]) -> None:
    text = arguments(values, "vllm.args", "nothing", "nothing")
    assert "VLM003" in ids(text, context("0.5.6", profile="baseline"), "vllm.args")


def test_place_is_key_and_line() -> None:
    text = "# comment\nchunk_size: 256\nlocal_cpu: false\nchunk_sise: 1\n"
    (finding,) = [f for f in lint.lint(text, "x", context(profile=None)) if f.id == "LMC005"]
    assert (finding.key, finding.line) == ("chunk_sise", 4)
    assert "chunk_size?" in finding.reason


def test_a_key_given_twice_is_found_though_yaml_keeps_the_last() -> None:
    found = lint.lint("chunk_size: 256\nchunk_size: 16\n", "x", context(profile=None))
    assert ("LMC001", 2) in {(f.id, f.line) for f in found}


def test_the_files_own_chunk_size_decides_the_sizes(in_process: dict[str, Any]) -> None:
    geometry = ProfileSpec.from_mapping(in_process).geometry()
    values = rendered(in_process, chunk_size=512) | {"nixl_buffer_size": 16_384 * 4096}
    assert "LMC030" not in ids(yaml.safe_dump(values), context(geometry=geometry, max_tokens=16_384))


def test_the_documents_lmcache_yaml_is_known_not_to_start() -> None:
    ctx = context_of(
        lmcache="0.4.5",
        nixl="1.1.0",
        vllm="0.19.0",
        profile="s3-rdma",
        model="Qwen3-Coder-30B-A3B-Instruct",
        tp=4,
        max_tokens=235_000,
        env={},
    )
    found = lint.lint((FIXTURES / "document-lmcache.yaml").read_text(), "x", lint.with_mode(ctx, 0o644))
    errors = {(f.id, f.key.rpartition(".")[2]) for f in found if f.severity == "error"}
    assert errors == {
        ("LMC014", "nixl_pool_size"),
        ("NIX005", "accelerated"),
        ("NIX018", "access_key"),
        ("NIX018", "secret_key"),
        ("NIX018", "bucket"),
        ("NIX019", "secret_key"),
        ("ENV002", "PYTHONHASHSEED"),
        ("ENV008", "CUFILE_ENV_PATH_JSON"),
        ("ENV010", "LMCACHE_CONFIG_FILE"),
        ("STK004", "vllm"),
    }
    assert {f.id for f in found if f.severity != "error"} == {
        "LMC030",
        "LMC031",
        "ENV009",
        "STK003",
        "STK005",
    }


def test_the_documents_cufile_json_allows_a_silent_fallback() -> None:
    found = lint.lint((FIXTURES / "document-cufile.json").read_text(), "cufile.json", context())
    assert [(f.id, f.line) for f in found] == [("CUF013", 6)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", ""),
        ("a.yaml", "just words"),
        ("a.yaml", "- a\n- b"),
        ("a.yaml", "a: [1, 2"),
        ("a.yaml", "a: b: c"),
        ("a.yaml", "\x00\x01"),
        ("a.yaml", "a: !!python/object:os.system x"),
        ("a.yaml", "a: &x [*x]"),
        ("a.yaml", "a: " + "[" * 5000),
        ("a.yaml", "x: " + "y" * 2_000_000),
        ("a.yaml", "a: 2001-99-99"),
        ("a.json", "{"),
        ("a.args", "[1]"),
        ("a.args", '["ls"]'),
        ("a.args", "[" * 100_000),
        (
            "a.yaml",
            "a: &a [l,l]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
            "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
        ),
    ],
)
def test_what_is_no_configuration_is_one_clear_error(name: str, text: str) -> None:
    with pytest.raises(KvlabError) as caught:
        lint.lint(text, name, context())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, True, [None], {"a": 1}, float("nan")])
def test_a_value_of_any_type_at_any_key_is_judged_and_never_crashes(
    in_process: dict[str, Any], value: Any
) -> None:
    good = rendered(in_process)
    geometry = ProfileSpec.from_mapping(in_process).geometry()
    ctx = context(geometry=geometry, max_tokens=16_384)
    paths = [(key,) for key in good]
    paths += [("extra_config", key) for key in good["extra_config"]]
    paths += [(*P, key) for key in good["extra_config"]["nixl_backend_params"]]
    for path in paths:
        for finding in lint.lint(yaml.safe_dump(put(good, path, value)), "x", ctx):
            assert finding.reason.endswith((".", "?"))


def test_an_unknown_version_is_one_clear_error() -> None:
    with pytest.raises(KvlabError, match=r"0\.5\.6"):
        knownkeys.lmcache("9.9.9")
    with pytest.raises(KvlabError, match="not a version"):
        context_of(lmcache="0.5.6", nixl="newest")


def test_a_folder_without_lmcache_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(KvlabError, match="holds no LMCache"):
        knownkeys.lmcache(str(tmp_path))


def test_keys_are_read_from_a_packages_source_without_importing_it(tmp_path: Path) -> None:
    package = tmp_path / "lmcache"
    (package / "v1" / "multiprocess").mkdir(parents=True)
    (package / "_version.py").write_text('version = "7.0"\n')
    (package / "v1" / "config.py").write_text(
        "raise SystemExit\n"
        '_CONFIG_ALIASES = {"old": "new", "kept": "other"}\n'
        '_DEPRECATED_CONFIGS = {"gone": "text"}\n'
        '_CONFIG_DEFINITIONS: dict = {"kept": {"type": Optional[int], "default": 3, "env_converter": int}}\n'
    )
    (package / "v1" / "use.py").write_text(
        'a = self.extra_config.get("one")\nb = config.get_extra_config_value("two", 1)\n'
    )
    (package / "v1" / "multiprocess" / "cfg.py").write_text(
        'p.add_argument("--flag", action=argparse.BooleanOptionalAction)\n'
    )
    found = knownkeys.scan(tmp_path)
    assert found.version == "7.0"
    assert found.top == {"kept": knownkeys.Key("Optional[int]", 3)}
    assert found.renamed == {"old": "new", "gone": None}
    assert found.extra == {"one", "two"}
    assert found.server_flags == {"--flag", "--no-flag"}


def test_every_release_with_data_knows_the_keys_that_the_renderer_writes(in_process: dict[str, Any]) -> None:
    for version in knownkeys.versions():
        keys = knownkeys.lmcache(version)
        out = rendered(in_process, lmcache=version)
        assert out.keys() <= keys.top.keys()
        assert out["extra_config"].keys() <= keys.extra


def test_an_environment_file_is_read_as_systemd_reads_it() -> None:
    assert environment.parse("# c\n\nA=1\nexport B='x y'\nC=a=b\n", "env") == {
        "A": "1",
        "B": "x y",
        "C": "a=b",
    }
    with pytest.raises(KvlabError, match="line 1"):
        environment.parse("not an assignment", "env")
