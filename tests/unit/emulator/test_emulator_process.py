"""The emulator as a process: crashes, full disks, bad options, TLS, the access log, memory."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError, SSLError
from emulator_helpers import USERS, Emulator, free_port, refused, wait_until


def test_objects_and_buckets_survive_kill_9_and_a_restart(make_emulator: Any) -> None:
    emulator = make_emulator()
    client = emulator.client()
    client.create_bucket(Bucket="b")
    client.put_object(Bucket="b", Key="k", Body=b"kept", Metadata={"m": "1"})
    emulator.kill(signal.SIGKILL)
    emulator.start()
    got = emulator.client().get_object(Bucket="b", Key="k")
    assert (got["Body"].read(), got["Metadata"]) == (b"kept", {"m": "1"})


def test_kill_9_while_writing_leaves_the_old_object_or_the_new_one(make_emulator: Any) -> None:
    emulator = make_emulator()
    emulator.client().create_bucket(Bucket="b")
    seed = random.Random(7)
    size = 3 << 20

    def write(done: list[int]) -> None:
        client = emulator.client()
        try:
            for number in range(1, 200):
                client.put_object(Bucket="b", Key="k", Body=bytes([number]) * size)
                done.append(number)
        except (HTTPClientError, EndpointConnectionError):
            return

    for _ in range(5):
        done = [0]
        writer = threading.Thread(target=write, args=(done,))
        writer.start()
        wait_until(lambda: len(done) > 2)  # noqa: B023
        time.sleep(seed.random() * 0.05)
        emulator.kill(signal.SIGKILL)
        writer.join()
        emulator.start()
        client = emulator.client()
        data = client.get_object(Bucket="b", Key="k")["Body"].read()
        assert len(data) == size
        assert set(data) <= {done[-1], done[-1] + 1}
        assert len(set(data)) == 1
        assert len(emulator.data_files()) == 1, "a restart removes what the killed process left"


def test_a_client_that_goes_away_inside_the_body_leaves_the_old_object(make_emulator: Any) -> None:
    emulator = make_emulator()
    client = emulator.client()
    client.create_bucket(Bucket="b")
    client.put_object(Bucket="b", Key="k", Body=b"old")
    signed: dict[str, str] = {}
    client.meta.events.register(
        "before-send.s3.PutObject", lambda request, **_: signed.update(request.headers)
    )
    client.put_object(Bucket="b", Key="k2", Body=b"x" * 1000)
    with socket.create_connection(("127.0.0.1", emulator.port)) as raw:
        lines = "".join(f"{n}: {v.decode() if isinstance(v, bytes) else v}\r\n" for n, v in signed.items())
        lines = lines.replace("Expect: 100-continue\r\n", "")
        raw.sendall(
            f"PUT /b/k2 HTTP/1.1\r\nHost: 127.0.0.1:{emulator.port}\r\n{lines}\r\n".encode() + b"y" * 500
        )
    wait_until(lambda: emulator.log()[-1]["status"] == 0)
    last = emulator.log()[-1]
    assert (last["op"], last["body_in"]) == ("PutObject", 500)
    assert "went away" in last["error"]
    assert client.get_object(Bucket="b", Key="k2")["Body"].read() == b"x" * 1000
    assert not list((emulator.state / "incoming").iterdir())


def test_a_full_disk_is_507_and_nothing_is_half_stored(tmp_path: Path) -> None:
    class Limited(Emulator):
        def start(self) -> Emulator:
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (4 << 20, hard)
            )  # the kernel refuses longer files, as if full
            try:
                return super().start()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    emulator = Limited(tmp_path).start()
    try:
        client = emulator.client()
        client.create_bucket(Bucket="b")
        client.put_object(Bucket="b", Key="k", Body=b"old")
        assert refused(client.put_object, Bucket="b", Key="k", Body=bytes(5 << 20)) == (
            "InsufficientStorage",
            507,
        )
        assert client.get_object(Bucket="b", Key="k")["Body"].read() == b"old"
        assert not list((emulator.state / "incoming").iterdir())
        assert len(emulator.data_files()) == 1
    finally:
        emulator.stop()


def failed_start(*arguments: str) -> str:
    """What the emulator says when it refuses to start: one line, exit status 2."""
    emulator = Emulator(Path("/nonexistent"))
    command = [*emulator.command()[:4], *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(USERS))
    return path


def start_arguments(tmp_path: Path, users: Path) -> list[str]:
    return ["--state", str(tmp_path / "state"), "--users", str(users), "--s3-port", str(free_port())]


def test_a_port_in_use_is_named_with_the_process_that_has_it(tmp_path: Path, users: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        arguments = start_arguments(tmp_path, users)
        arguments[-1] = str(holder.getsockname()[1])
        said = failed_start(*arguments)
    assert f"port {arguments[-1]} on 127.0.0.1 is in use by process {os.getpid()}" in said


def test_a_users_file_that_is_missing_or_readable_by_others_or_wrong_is_refused(
    tmp_path: Path, users: Path
) -> None:
    arguments = start_arguments(tmp_path, users)
    users.chmod(0o640)
    assert f"chmod 600 {users}" in failed_start(*arguments)
    users.chmod(0o600)
    users.write_text('{"users": [{"access_key": "a"}]}')
    assert "is not of the form" in failed_start(*arguments)
    users.write_text(
        '{"users": [{"access_key": "a", "secret_keys": ["TOPSECRET", "2", "3"], "namespace": "n"}]}'
    )
    said = failed_start(*arguments)
    assert "more than 2 secret keys" in said
    assert "TOPSECRET" not in said
    users.unlink()
    assert "No such file" in failed_start(*arguments)


def test_a_state_folder_that_cannot_be_written_is_refused(tmp_path: Path, users: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    arguments = start_arguments(tmp_path, users)
    arguments[1] = str(blocked / "state")
    assert f"the state folder {blocked}/state cannot be written" in failed_start(*arguments)


def test_two_emulators_cannot_share_a_state_folder(make_emulator: Any, users: Path) -> None:
    running = make_emulator()
    arguments = start_arguments(users.parent, users)
    arguments[1] = str(running.state)
    assert "another emulator uses the state folder" in failed_start(*arguments)


def test_tls_uses_a_certificate_of_the_emulators_own(tmp_path: Path) -> None:
    port = free_port()
    emulator = Emulator(tmp_path, ["--tls-port", str(port)]).start()
    try:
        certificate = emulator.state / "tls" / "cert.pem"
        assert stat.S_IMODE((emulator.state / "tls" / "key.pem").stat().st_mode) == 0o600
        client = emulator.client(url=f"https://127.0.0.1:{port}", verify=str(certificate))
        client.create_bucket(Bucket="b")
        data = os.urandom(2 << 20)
        client.put_object(Bucket="b", Key="k", Body=data)
        assert client.get_object(Bucket="b", Key="k")["Body"].read() == data
        assert emulator.client().get_object(Bucket="b", Key="k")["Body"].read() == data
        with pytest.raises(SSLError):
            emulator.client(url=f"https://127.0.0.1:{port}").list_buckets()
        new_sdk = emulator.client(
            url=f"https://127.0.0.1:{port}",
            verify=str(certificate),
            request_checksum_calculation="when_supported",
        )
        # The failure that new SDKs meet on an array's TLS port, and its remedy above.
        assert refused(new_sdk.put_object, Bucket="b", Key="k2", Body=b"x") == (
            "XAmzContentSHA256Mismatch",
            400,
        )
        first = certificate.read_bytes()
        emulator.stop()
        emulator.start()
        assert certificate.read_bytes() == first
    finally:
        emulator.stop()


def test_users_are_read_again_on_sighup_and_a_bad_file_changes_nothing(make_emulator: Any) -> None:
    emulator = make_emulator()
    assert refused(emulator.client("new", "new-secret").list_buckets) == ("InvalidAccessKeyId", 403)
    changed = {"users": [{"access_key": "new", "secret_keys": ["new-secret"], "namespace": "ns1"}]}
    emulator.users.write_text(json.dumps(changed))
    emulator.process.send_signal(signal.SIGHUP)
    assert "users read again" in emulator.process.stdout.readline()
    assert "Buckets" in emulator.client("new", "new-secret").list_buckets()
    assert refused(emulator.client().list_buckets) == ("InvalidAccessKeyId", 403)
    emulator.users.write_text("nonsense")
    emulator.process.send_signal(signal.SIGHUP)
    assert "users unchanged" in emulator.process.stdout.readline()
    assert "Buckets" in emulator.client("new", "new-secret").list_buckets()


def test_each_answered_request_has_its_line_in_the_access_log_already(make_emulator: Any) -> None:
    emulator = make_emulator()
    client = emulator.client()
    client.create_bucket(Bucket="b")
    for size in (0, 10, 64 << 10, (64 << 10) + 1, 3 << 20):
        client.put_object(Bucket="b", Key=f"k{size}", Body=bytes(size))
        last = emulator.log()[-1]
        expected = {
            "op": "PutObject",
            "bucket": "b",
            "key": f"k{size}",
            "status": 200,
            "body_in": size,
            "body_out": 0,
        }
        assert expected.items() <= last.items()
        assert last["path"] == ("http" if size else "none")
        client.get_object(Bucket="b", Key=f"k{size}")["Body"].read()
        last = emulator.log()[-1]
        expected = {"op": "GetObject", "status": 200, "body_in": 0, "body_out": size, "error": None}
        assert expected.items() <= last.items()
    refused(client.get_object, Bucket="b", Key="none")
    last = emulator.log()[-1]
    assert {
        "status": 404,
        "error": "NoSuchKey",
        "path": "none",
        "rdma_requested": False,
    }.items() <= last.items()
    assert last["simulated"] is True
    assert last["user"] == "kvlab"
    assert last["duration_ms"] > 0


def test_the_log_command_reads_from_a_time_on(make_emulator: Any) -> None:
    emulator = make_emulator()
    client = emulator.client()
    client.list_buckets()
    time.sleep(0.05)
    client.create_bucket(Bucket="b")
    when = emulator.log()[-1]["time"]
    command = [*emulator.command()[:4], "log", str(emulator.state / "access.log")]

    def read(*arguments: str) -> list[str]:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=30, check=True)
        return [json.loads(line)["op"] for line in done.stdout.splitlines()]

    assert read() == read("--since", "100") == ["ListBuckets", "CreateBucket"]
    assert read("--since", when) == ["CreateBucket"]
    assert read("--since", "2099-01-01") == []
    bad = subprocess.run(
        [*command, "--since", "yesterday"], capture_output=True, text=True, timeout=30, check=False
    )
    assert bad.returncode == 2
    assert "neither seconds nor a time" in bad.stderr


def test_a_renamed_access_log_is_begun_anew(make_emulator: Any) -> None:
    emulator = make_emulator()
    client = emulator.client()
    client.list_buckets()
    log = emulator.state / "access.log"
    log.rename(log.with_name("moved"))
    client.list_buckets()
    assert len(emulator.log()) == 1
    log.rename(log.with_name("moved too"))
    log.touch()  # as logrotate's `create` does
    client.list_buckets()
    client.list_buckets()
    assert len(emulator.log()) == 2


def test_resident_memory_does_not_grow_with_the_bodies(make_emulator: Any) -> None:
    emulator = make_emulator()
    client = emulator.client()
    client.create_bucket(Bucket="b")
    client.put_object(Bucket="b", Key="small", Body=b"x" * 200_000)
    before = emulator.memory()
    data = bytes(96 << 20)
    for number in range(3):
        client.put_object(Bucket="b", Key=f"k{number}", Body=data)
        stream = client.get_object(Bucket="b", Key=f"k{number}")["Body"]
        assert sum(len(piece) for piece in stream.iter_chunks(1 << 20)) == len(data)
    assert emulator.memory() - before < 48 << 20


def test_sigterm_ends_it_with_status_0_also_with_an_idle_connection(make_emulator: Any) -> None:
    emulator = make_emulator()
    client = emulator.client()
    client.list_buckets()
    process = emulator.process
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    with pytest.raises((EndpointConnectionError, HTTPClientError, ClientError)):
        client.list_buckets()
