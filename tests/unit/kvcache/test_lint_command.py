"""kvlab lint: exit 0 without an error, 1 with one, 2 for what cannot be read; places and JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures" / "kvcache"
DOCUMENT = str(FIXTURES / "document-lmcache.yaml")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from kvlab.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "lint", *arguments], capture_output=True, text=True, check=False
    )


def test_errors_are_printed_with_file_line_id_and_key_and_exit_1() -> None:
    done = run(DOCUMENT, "--lmcache", "0.4.5", "--nixl", "1.1.0")
    assert (done.returncode, done.stderr) == (1, "")
    assert f"{DOCUMENT}:16: error NIX005 extra_config.nixl_backend_params.accelerated: " in done.stdout


def test_json_lists_findings_with_their_file() -> None:
    done = run(DOCUMENT, "--lmcache", "0.4.5", "--json")
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == 1
    assert {"id", "severity", "key", "line", "reason", "remedy", "file"} <= findings[0].keys()
    assert {f["file"] for f in findings} == {DOCUMENT}


def test_a_file_without_an_error_is_exit_0(tmp_path: Path) -> None:
    file = tmp_path / "cufile.json"
    properties = {
        "allow_compat_mode": False,
        "use_pci_p2pdma": True,
        "rdma_peer_type": "dmabuf",
        "rdma_dev_addr_list": ["192.0.2.1"],
    }
    file.write_text(json.dumps({"properties": properties}))
    done = run(str(file), "--address", "192.0.2.1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert run(str(file), "--address", "192.0.2.2").returncode == 1


def test_a_secret_that_others_may_read_is_found_by_the_files_mode(tmp_path: Path) -> None:
    file = tmp_path / "lmcache.yaml"
    file.write_text(Path(DOCUMENT).read_text())
    file.chmod(0o600)
    assert "NIX019" not in run(str(file)).stdout
    file.chmod(0o640)
    assert "NIX019" in run(str(file)).stdout


def test_environment_files_add_up(tmp_path: Path) -> None:
    one, two = tmp_path / "env", tmp_path / "secret.env"
    one.write_text(
        "PYTHONHASHSEED=0\nCUFILE_ENV_PATH_JSON=/x\nCUOBJ_ENV_PATH_JSON=/x\nLMCACHE_CONFIG_FILE=/x\n"
    )
    two.write_text("AWS_ACCESS_KEY_ID=a\nAWS_SECRET_ACCESS_KEY=b\n")
    two.chmod(0o600)
    done = run(DOCUMENT, "--env", str(one), "--env", str(two))
    assert "ENV0" not in done.stdout
    assert "ENV002" in run(DOCUMENT, "--env", str(two)).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["/no/such/file"],
        ["/"],
        ["/dev/zero"],
        [DOCUMENT, "--lmcache", "9.9"],
        [DOCUMENT, "--lmcache", "/no/such/folder"],
        [DOCUMENT, "--nixl", "new"],
        [DOCUMENT, "--vllm", "new"],
        [DOCUMENT, "--model", "no-such-model"],
        [DOCUMENT, "--max-tokens", "5"],
        [DOCUMENT, "--model", "Qwen3-32B", "--max-tokens", "-5"],
        [DOCUMENT, "--model", "Qwen3-32B", "--tp", "0"],
        [DOCUMENT, "--tp", "-1"],
        [DOCUMENT, "--env", DOCUMENT],
        [DOCUMENT, "--address", "here"],
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kvlab: ")
    assert done.stderr.count("\n") == 1


def test_linting_imports_no_torch() -> None:
    code = (
        f"import sys; sys.argv = ['kvlab', 'lint', {DOCUMENT!r}]\n"
        "from kvlab.cli import kvlab\n"
        "try:\n    kvlab(standalone_mode=False)\nexcept SystemExit:\n    pass\n"
        "assert not {'torch', 'lmcache', 'boto3', 'numpy', 'aiohttp'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
