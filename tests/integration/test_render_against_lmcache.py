"""What kvlab renders, the real LMCache of that release accepts; what LMCache refuses, the linter names first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvlab.kvcache import knownkeys, lint, render
from kvlab.kvcache.profile import ProfileSpec

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "tests" / "fixtures" / "kvcache" / "document-lmcache.yaml"
MODEL = {
    "model_type": "llama",
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "hidden_size": 512,
    "torch_dtype": "bfloat16",
}
GEOMETRY = {"layers": 8, "kv_heads": 2, "head_size": 64, "chunk": 256}
RELEASES = {"0.4.5": "0.19.1", "0.5.3": "0.25.1", "0.5.6": "0.25.1"}


def rendered(name: str, release: str) -> dict[str, Any]:
    spec = ProfileSpec(
        name=name,
        mode="in-process",
        vllm=RELEASES[release],
        lmcache=release,
        nixl="1.5.1",
        model="lab/model",
        model_config=MODEL,
        max_model_len=16_384,
        directory="/etc/kvlab/profiles/x",
        simulated=True,
        endpoints=("http://192.0.2.1:9020", "http://192.0.2.2:9020"),
        bucket="kv-test",
        access_key="key",
        secret_key="secret",
        rdma_dev_addr_list=("192.0.2.9",),
        device="cuda",
        file_path="/mnt/kv",
    )
    values: dict[str, Any] = yaml.safe_load(render.profile(spec).files["lmcache.yaml"].content)
    return values


def changed(values: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy with one key set, or removed where the value is ...."""
    copy: dict[str, Any] = json.loads(json.dumps(values))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        inner.pop(path[-1], None)
    else:
        inner[path[-1]] = value
    return copy


# Each is applied to the rendered s3-rdma and s3-http files.
MUTATIONS: list[tuple[tuple[str, ...], Any]] = [
    (("extra_config", "nixl_pool_size"), ...),
    (("extra_config", "nixl_pool_size"), None),
    (("extra_config", "nixl_backend"), ...),
    (("extra_config", "nixl_backend"), "S3"),
    (("extra_config", "nixl_backend"), "POSIX"),
    (("extra_config", "nixl_backend"), "AZURE_BLOB"),
    (("extra_config", "nixl_endpoint_list"), []),
    (("extra_config", "nixl_endpoint_list"), ["192.0.2.1:9020"]),
    (("extra_config", "use_direct_io"), "yes"),
    (("extra_config", "nixl_presence_cache_only"), True),
    (("nixl_buffer_device",), ...),
    (("nixl_buffer_device",), "gpu"),
    (("nixl_buffer_device",), "cuda:0"),
    (("nixl_buffer_size",), ...),
    (("nixl_buffer_size",), 1 << 30),
    (("save_unfull_chunk",), True),
    (("max_local_cpu_size",), 0),
    (("chunk_size",), "many"),
]


@pytest.fixture(scope="module")
def lmcache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function: (release, list of contents) -> LMCache's verdicts."""
    python = Path(os.environ.get("KVLAB_SERVING_PYTHON", ROOT / ".lab/venv/bin/python"))
    if not python.exists():
        pytest.fail(f"no serving venv at {python}: run ./lab up, or set KVLAB_SERVING_PYTHON", pytrace=False)
    packages: dict[str, Path] = {}

    def package(release: str) -> Path:
        if release not in packages:
            folder = tmp_path_factory.mktemp(f"lmcache-{release}")
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pip",
                    "download",
                    "-q",
                    "--no-deps",
                    f"lmcache=={release}",
                    "-d",
                    str(folder),
                ],
                check=True,
                timeout=300,
            )
            (wheel,) = folder.glob("*.whl")
            zipfile.ZipFile(wheel).extractall(folder)
            packages[release] = folder
        return packages[release]

    def ask(release: str, contents: list[str]) -> list[str]:
        folder = tmp_path_factory.mktemp("files")
        files = []
        for number, content in enumerate(contents):
            file = folder / f"{number}.yaml"
            file.write_text(content)
            files.append(str(file))
        where = package(release)
        done = subprocess.run(
            [python, Path(__file__).with_name("lmcache_validate.py")],
            input=json.dumps({"files": files, "package": str(where), "geometry": GEOMETRY}),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        answer = json.loads(done.stdout.splitlines()[-1])
        assert answer["from"].startswith(str(where))
        verdicts: list[str] = answer["verdicts"]
        return verdicts

    return ask


@pytest.mark.parametrize("release", RELEASES)
def test_lmcache_accepts_every_rendered_file(release: str, lmcache: Any) -> None:
    files = [yaml.safe_dump(rendered(name, release)) for name in ("s3-http", "s3-rdma", "file")]
    assert lmcache(release, files) == ["ok"] * 3


@pytest.mark.parametrize("release", RELEASES)
def test_lmcache_refuses_the_documents_own_file_without_a_message(release: str, lmcache: Any) -> None:
    assert lmcache(release, [DOCUMENT.read_text()]) == ["AssertionError: "]


@pytest.mark.parametrize("release", RELEASES)
def test_the_linter_has_an_error_for_all_that_lmcache_refuses(release: str, lmcache: Any) -> None:
    variants = [
        (
            f"{name}: {'.'.join(path)} = {value!r}",
            yaml.safe_dump(changed(rendered(name, release), path, value)),
        )
        for name in ("s3-http", "s3-rdma")
        for path, value in MUTATIONS
    ]
    context = lint.Context(lmcache=knownkeys.lmcache(release))
    missed, refused = [], 0
    for (what, content), verdict in zip(variants, lmcache(release, [c for _, c in variants]), strict=True):
        if verdict != "ok":
            refused += 1
            if not lint.has_errors(lint.lint(content, "lmcache.yaml", context)):
                missed.append(f"{what}: {verdict}")
    assert not missed
    assert refused >= 15
