"""gdscheck is read and judged, and what the role gpudirect writes is validated as a client reads it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_sysfs
import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import gdscheck
from fake_sysfs import nic

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "plugins/filter"))
from gpudirect import gpudirect_files  # noqa: E402

Run = Callable[..., dict[str, Any]]
Commands = Callable[..., Path]
OUTPUTS = ROOT / "tests/fixtures/commands/gdscheck"
TOPOLOGY = {"gpus": [{"gpu": "GPU0"}], "nics": [], "rdma_dev_addr_list": ["192.0.2.1"], "problems": []}
PEER = {"kind": "dmabuf", "judged": {}, "evidence": {"kernel": "6.8.0"}, "changed": False}


def output(name: str) -> dict[str, Any]:
    found: dict[str, Any] = gdscheck.parse((OUTPUTS / f"{name}.txt").read_text())
    return found


def written(root: Path, **changes: str) -> dict[str, Any]:
    """The role's files below `root`, their texts replaced by `changes` of file name to content."""
    files = gpudirect_files(TOPOLOGY, PEER, simulated=True)
    for name, file in files.items():
        text = changes.get(Path(name).name.replace(".", "_"), file["content"])
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("=/etc", f"={root}/etc"))
    return files


def validate(run: Run, root: Path, kind: str = "dmabuf", address: str = "192.0.2.1") -> list[str]:
    sysfs = fake_sysfs.write(root / "sys", [nic("mlx5_0", "ens1np0", address)])
    arguments = {"env_file": str(root / "etc/kvlab/gpudirect.env"), "kind": kind, "sysfs_root": str(sysfs)}
    problems: list[str] = run("cuobject_config_facts", **arguments)["problems"]
    return problems


def test_gdscheck_is_read_whole() -> None:
    found = output("1.13-not-configured")
    assert found["versions"] == {"gds": "1.13.1.3", "nvidia_fs": "2.20", "libcufile": "2.12"}
    assert found["support"]["IBM Spectrum Scale"] == "Unsupported"
    assert found["support"]["Userspace RDMA"] == "Unsupported"
    assert found["rdma"]["rdma devices"] == "Not configured"
    assert found["settings"]["properties.use_compat_mode"] == "true"
    assert found["settings"]["fs.lustre.posix_gds_min_kb"] == "0"


def test_what_gdscheck_says_against_rdma_is_told_for_the_kind_that_is_used() -> None:
    found = output("1.13-not-configured")
    said = list(gdscheck.problems(found, "nvidia_peermem"))
    assert [sentence.split(",")[0] for sentence in said] == [
        "gdscheck calls Mellanox PeerDirect disabled",
        "gdscheck cannot load libcufile_rdma.so; install the release of libcufile that the toolkit has",
        "gdscheck sees no address in rdma_dev_addr_list",
    ]
    assert not any("PeerDirect" in sentence for sentence in gdscheck.problems(found, "dmabuf"))
    found["rdma"]["DmaBuf support"] = "Disabled"
    assert any("DmaBuf support" in sentence for sentence in gdscheck.problems(found, "dmabuf"))


def test_a_host_that_is_set_up_gives_no_problem_and_a_device_that_is_down_gives_one() -> None:
    found = output("configured")
    assert list(gdscheck.problems(found, "nvidia_peermem")) == []
    found["rdma"]["rdma_device_status"] = "Up: 7 Down: 1"
    assert list(gdscheck.problems(found, "dmabuf")) == ["gdscheck finds 1 of the addresses' devices down"]


def test_a_host_without_gdscheck_has_nothing_to_judge(run: Run, commands: Commands) -> None:
    commands("nvidia-smi")
    result = run("gdscheck_facts", kind="dmabuf")
    assert (result["installed"], result["found"], result["problems"]) == (False, None, [])


def test_gdscheck_that_fails_is_a_sentence(run: Run, commands: Commands) -> None:
    commands("gdscheck")
    result = run("gdscheck_facts", kind="dmabuf")
    assert result["failed"]
    assert "gdscheck -p ended with 1: cuInit failed: CUDA_ERROR_NO_DEVICE" in result["msg"]


def test_what_the_role_writes_is_what_a_client_needs(run: Run, tmp_path: Path) -> None:
    files = written(tmp_path)
    assert validate(run, tmp_path) == []
    record = json.loads(files["etc/kvlab/gpudirect.json"]["content"])
    assert record["simulated"] is True
    assert record["peer_memory"] == {"kind": "dmabuf", "judged": {}, "evidence": {"kernel": "6.8.0"}}
    assert files["etc/kvlab/gpudirect/cufile.json"] == files["etc/kvlab/gpudirect/cuobj.json"]
    settings = json.loads(files["etc/kvlab/gpudirect/cuobj.json"]["content"])["properties"]
    assert settings["rdma_dev_addr_list"] == ["192.0.2.1"]
    assert settings["allow_compat_mode"] is False


def test_a_shell_and_a_unit_get_the_same_two_variables() -> None:
    files = gpudirect_files(TOPOLOGY, PEER, simulated=False)
    unit = files["etc/kvlab/gpudirect.env"]["content"].splitlines()
    assert files["etc/profile.d/kvlab-gpudirect.sh"]["content"].splitlines() == [
        f"export {line}" for line in unit
    ]
    assert [line.partition("=")[0] for line in unit] == ["CUFILE_ENV_PATH_JSON", "CUOBJ_ENV_PATH_JSON"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cuobj_json": "{} // note\n"}, "cuobj.json is not readable as JSON"),
        ({"cuobj_json": '{"properties": {}}\n'}, "empty rdma_dev_addr_list"),
        (
            {"gpudirect_env": "CUFILE_ENV_PATH_JSON=/etc/kvlab/gpudirect/cufile.json\n"},
            "does not set CUOBJ_ENV",
        ),
        (
            {
                "cuobj_json": '{"properties": {"rdma_dev_addr_list": ["192.0.2.1"], "rdma_peer_type": "dmabuf"}}\n'
            },
            "cufile.json and cuobj.json differ",
        ),
    ],
)
def test_a_file_that_was_spoilt_is_found(run: Run, tmp_path: Path, changes: dict[str, str], why: str) -> None:
    written(tmp_path, **changes)
    assert why in "; ".join(validate(run, tmp_path))


def test_an_address_that_moved_and_a_kind_that_changed_are_found(run: Run, tmp_path: Path) -> None:
    written(tmp_path)
    problems = validate(run, tmp_path, kind="nvidia_peermem", address="192.0.2.9")
    assert any("lists 192.0.2.1, which no RDMA port of this host has" in one for one in problems)
    assert any("rdma_peer_type dmabuf, and the host has nvidia_peermem" in one for one in problems)
