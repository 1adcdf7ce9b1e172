"""service_logs: the end of each log, and nothing secret in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., dict[str, Any]]
KEY = "Zq8rT4wLpX2vN6mB0sKd"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log/vllm").mkdir(parents=True)
    return tmp_path


def logs(run: Run, folder: Path, **more: Any) -> dict[str, Any]:
    result = run("service_logs", log_dir=str(folder / "log"), **more)
    assert not result.get("failed"), result
    return result


def test_logs_of_all_folders_are_taken_under_their_names(run: Run, folder: Path) -> None:
    (folder / "log/a.log").write_text("one\n")
    (folder / "log/vllm/access.jsonl").write_text("{}\n")
    (folder / "log/core.bin").write_bytes(b"\0")
    assert logs(run, folder)["logs"] == {"a.log": "one\n", "vllm/access.jsonl": "{}\n"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("secret.env", f"# {KEY[::-1]}\nAWS_SECRET_ACCESS_KEY='{KEY}'\nREGION=us\n"),
        ("objectscale.json", json.dumps({"users": [{"name": "kvlab", "secret_key": KEY}]})),
        ("password", f"{KEY}\n"),
    ],
)
def test_the_values_of_secret_files_are_taken_out(run: Run, folder: Path, name: str, content: str) -> None:
    (folder / name).write_text(content)
    (folder / "log/a.log").write_text(f"signing with {KEY} for kvlab in us\n")
    result = logs(run, folder, secret_files=[str(folder / name), str(folder / "not-there")])
    assert KEY not in json.dumps(result)
    assert result["logs"]["a.log"] == "signing with [taken out] for kvlab in us\n"
    assert result["taken_out"] == 1


def test_a_secret_that_holds_another_is_taken_out_whole(run: Run, folder: Path) -> None:
    (folder / "log/a.log").write_text(f"{KEY}tail\n")
    assert logs(run, folder, secrets=[KEY, f"{KEY}tail"])["logs"]["a.log"] == "[taken out]\n"


@pytest.mark.parametrize(
    "line",
    [
        f"Authorization: AWS4-HMAC-SHA256 Credential=kvlab/2026, Signature={KEY}",
        f"headers {{'authorization': 'Basic {KEY}'}}",
        f"X-SDS-AUTH-TOKEN: {KEY}",
        f"secret_key={KEY}",
        f'"password": "{KEY}"',
        f"GET /b/k?X-Amz-Signature={KEY}&x=1",
        f"-----BEGIN RSA PRIVATE KEY-----\n{KEY}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{KEY}",
    ],
)
def test_what_looks_like_a_credential_is_taken_out_wherever_it_comes_from(
    run: Run, folder: Path, line: str
) -> None:
    (folder / "log/a.log").write_text(f"before\n{line}\n")
    text = logs(run, folder)["logs"]["a.log"]
    assert KEY not in text
    assert text.startswith("before\n")


def test_an_ordinary_log_stays_as_it_is(run: Run, folder: Path) -> None:
    text = "INFO prompt_tokens=4096 ttft=0.84\nwarning: 3 tokens: lost\nrkey 17 of token ring\n"
    (folder / "log/a.log").write_text(text)
    (folder / "short").write_text("KEY=a\nNONE=\n")
    result = logs(run, folder, secrets=[""], secret_files=[str(folder / "short")])
    assert (result["logs"]["a.log"], result["taken_out"]) == (text, 0)


def test_only_the_end_of_a_long_log_is_taken_from_a_whole_line_on(run: Run, folder: Path) -> None:
    (folder / "log/a.log").write_text("".join(f"line {number}\n" for number in range(100)))
    text = logs(run, folder, max_bytes=20)["logs"]["a.log"]
    assert text == "line 98\nline 99\n"


def test_a_secret_file_that_cannot_be_read_stops_everything(run: Run, folder: Path) -> None:
    (folder / "secret.env").write_bytes(b"KEY=\xff\xfe")
    (folder / "log/a.log").write_text("x\n")
    refused = run("service_logs", log_dir=str(folder / "log"), secret_files=[str(folder / "secret.env")])
    assert refused["failed"]
    assert "its secrets would stay" in refused["msg"]
    assert "logs" not in refused
