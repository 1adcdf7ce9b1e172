"""PUT and GET with a descriptor: the payload goes between the file and this process's memory."""

from __future__ import annotations

import os
from typing import Any

import pytest
from emulator_helpers import refused
from emulator_rdma_client import Memory, Registered, one_sided

from kvlab.emulator import onesided, rdma

SIZES = [1, 4095, 4096, 1 << 20, (1 << 20) + 1, 4 << 20]


def headers(reply: Any) -> dict[str, str]:
    found: dict[str, str] = reply["ResponseMetadata"]["HTTPHeaders"]
    return found


@pytest.mark.parametrize("header", ["x-rdma-info", "x-amz-rdma-token"])
@pytest.mark.parametrize("size", SIZES)
def test_a_put_pulls_the_clients_memory(emulator: Any, s3: Any, bucket: str, size: int, header: str) -> None:
    data = os.urandom(size)
    with Registered(size) as memory:
        memory.data = data
        reply = one_sided(
            s3, "put_object", memory.descriptor(), header=header, Bucket=bucket, Key="k", Body=b""
        )
    record = emulator.log()[-1]
    assert headers(reply)["x-amz-rdma-reply"] == "200"
    assert headers(reply)["x-amz-rdma-bytes-transferred"] == str(size)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == data
    assert {"path": "rdma", "rdma_in": size, "body_in": 0, "rdma_requested": True}.items() <= record.items()
    assert str(os.getpid()) in record["rdma_client"]


@pytest.mark.parametrize("size", SIZES)
def test_a_get_pushes_into_the_clients_memory_and_has_no_body(
    emulator: Any, s3: Any, bucket: str, size: int
) -> None:
    data = os.urandom(size)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    with Registered(size) as memory:
        reply = one_sided(
            s3, "get_object", memory.descriptor(), Bucket=bucket, Key="k", Range=f"bytes=0-{size - 1}"
        )
        assert memory.data == data
        assert memory.guards_untouched
    assert reply["Body"].read() == b""
    assert reply["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert headers(reply)["content-length"] == "0"
    assert headers(reply)["x-amz-rdma-reply"] == "206"
    assert headers(reply)["x-amz-rdma-bytes-transferred"] == str(size)
    record = emulator.log()[-1]
    assert {"path": "rdma", "rdma_out": size, "body_out": 0, "status": 206}.items() <= record.items()


def test_a_range_is_pushed_to_where_the_descriptor_points(s3: Any, bucket: str) -> None:
    data = os.urandom(100_000)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    with Registered(70_000) as memory:
        token = memory.descriptor(60_000, offset=5000)
        one_sided(s3, "get_object", token, Bucket=bucket, Key="k", Range="bytes=10001-70000")
        assert memory.data == b"\xa5" * 5000 + data[10001:70001] + b"\xa5" * 5000


@pytest.mark.parametrize("misaligned", [0, 1, 16, 31, 32, 2048, 4080])
@pytest.mark.parametrize("start", [0, 1, 4095])
def test_the_bytes_are_right_however_the_buffer_lies_in_its_page(
    s3: Any, bucket: str, misaligned: int, start: int
) -> None:
    size = (2 << 20) + 7
    data = os.urandom(start + size)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    with Registered(size + 8192) as memory:
        offset = (start + misaligned - memory.address) % 4096
        token = memory.descriptor(size, offset=offset)
        one_sided(s3, "get_object", token, Bucket=bucket, Key="k", Range=f"bytes={start}-{start + size - 1}")
        assert memory.data == b"\xa5" * offset + data[start:] + b"\xa5" * (8192 - offset)
        assert memory.guards_untouched
        one_sided(s3, "put_object", token, Bucket=bucket, Key="back", Body=b"")
    assert s3.get_object(Bucket=bucket, Key="back")["Body"].read() == data[start:]


def test_a_range_past_the_end_pushes_what_there_is(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"abc")
    with Registered(10) as memory:
        reply = one_sided(s3, "get_object", memory.descriptor(), Bucket=bucket, Key="k", Range="bytes=1-10")
        assert memory.data == b"bc" + b"\xa5" * 8
    assert headers(reply)["x-amz-rdma-bytes-transferred"] == "2"


def test_an_empty_object_is_got_without_moving_anything(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    with Registered(10) as memory:
        reply = one_sided(s3, "get_object", memory.descriptor(), Bucket=bucket, Key="k")
        assert memory.data == b"\xa5" * 10
    assert headers(reply)["x-amz-rdma-bytes-transferred"] == "0"


def test_wrong_descriptors_are_refused_and_touch_no_memory(emulator: Any, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="old", Body=b"x" * 100)
    with Registered(100) as memory:
        good = memory.descriptor()
        wrong = {
            "nonsense": 400,
            good + "0": 400,
            good.upper(): 400,
            memory.descriptor(101): None,
            memory.descriptor(100, offset=-1): None,
            memory.descriptor(100, offset=1): None,
            memory.descriptor(rkey=0x00020001): None,
            memory.descriptor(rkey=0x00010002): None,
            good.replace(f"{os.getpid():06x}", f"{emulator.process.pid:06x}"): None,
        }
        for token, status in wrong.items():
            for operation, more in (
                ("put_object", {"Key": "new", "Body": b""}),
                ("get_object", {"Key": "old"}),
            ):
                code, found = refused(one_sided, s3, operation, token, Bucket=bucket, **more)
                assert code in ("InvalidRDMAToken", "RDMATransferFailed"), token
                assert found == (status or found)
                assert found >= 400
            assert memory.data == b"\xa5" * 100
            assert memory.guards_untouched
    assert refused(s3.get_object, Bucket=bucket, Key="new") == ("NoSuchKey", 404)
    assert not list((emulator.state / "incoming").iterdir())


def test_a_range_larger_than_the_descriptor_is_refused(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 100)
    with Registered(99) as memory:
        assert refused(one_sided, s3, "get_object", memory.descriptor(), Bucket=bucket, Key="k") == (
            "InvalidRDMAToken",
            400,
        )
        assert memory.data == b"\xa5" * 99


def test_memory_that_is_no_longer_registered_is_refused(s3: Any, bucket: str) -> None:
    with Registered(100) as memory:
        token = memory.descriptor()
    assert (
        refused(one_sided, s3, "put_object", token, Bucket=bucket, Key="k", Body=b"")[0]
        == "RDMATransferFailed"
    )


def test_another_dc_key_is_refused(s3: Any, bucket: str) -> None:
    with Registered(100, dc_key=0x1234) as memory:
        code, _ = refused(one_sided, s3, "put_object", memory.descriptor(), Bucket=bucket, Key="k", Body=b"")
    assert code == "RDMATransferFailed"


def test_the_dc_key_is_an_option(make_emulator: Any) -> None:
    client = make_emulator("--rdma-dc-key", "0x1234").client()
    client.create_bucket(Bucket="b")
    with Registered(100, dc_key=0x1234) as memory:
        one_sided(client, "put_object", memory.descriptor(), Bucket="b", Key="k", Body=b"")


def test_a_put_with_a_descriptor_and_a_body_is_refused(s3: Any, bucket: str) -> None:
    with Registered(100) as memory:
        assert refused(
            one_sided, s3, "put_object", memory.descriptor(), Bucket=bucket, Key="k", Body=b"x" * 100
        ) == ("InvalidRequest", 400)
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


def test_a_descriptor_on_any_other_operation_is_not_implemented(s3: Any, bucket: str) -> None:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    with Registered(100) as memory:
        token = memory.descriptor()
        part = {"Bucket": bucket, "Key": "k", "UploadId": upload, "PartNumber": 1, "Body": b""}
        assert refused(one_sided, s3, "upload_part", token, **part) == ("NotImplemented", 501)
        assert refused(one_sided, s3, "delete_object", token, Bucket=bucket, Key="k") == (
            "NotImplemented",
            501,
        )


def test_without_rdma_a_put_is_declined_and_stores_nothing_and_a_get_has_a_body(make_emulator: Any) -> None:
    emulator = make_emulator("--no-rdma")
    client = emulator.client()
    client.create_bucket(Bucket="b")
    client.put_object(Bucket="b", Key="k", Body=b"x" * 100)
    with Registered(100) as memory:
        put = one_sided(client, "put_object", memory.descriptor(), Bucket="b", Key="new", Body=b"")
        assert headers(put)["x-amz-rdma-reply"] == "501"
        got = one_sided(client, "get_object", memory.descriptor(), Bucket="b", Key="k", Range="bytes=0-99")
        assert headers(got)["x-amz-rdma-reply"] == "501"
        assert got["Body"].read() == b"x" * 100
        assert memory.data == b"\xa5" * 100
    assert refused(client.get_object, Bucket="b", Key="new") == ("NoSuchKey", 404)
    assert {"path": "http", "body_out": 100, "rdma_requested": True}.items() <= emulator.log()[-2].items()


def test_aws_ignores_the_descriptor_as_a_store_without_rdma_does(aws: Any) -> None:
    client = aws.client()
    client.create_bucket(Bucket="plain")
    with Registered(100) as memory:
        reply = one_sided(client, "put_object", memory.descriptor(), Bucket="plain", Key="k", Body=b"")
    assert "x-amz-rdma-reply" not in headers(reply)
    assert client.head_object(Bucket="plain", Key="k")["ContentLength"] == 0


def test_a_short_push_needs_no_thread_while_nobody_else_is_served(
    make_service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service()
    found = rdma.parse(Memory(4096).descriptor())

    def at_once(length: int, in_progress: int) -> bool:
        service.in_progress = in_progress
        return onesided.is_brief(service, found, length)

    assert (at_once(1 << 20, 1), at_once((1 << 20) + 1, 1), at_once(1, 2)) == (True, False, False)
    monkeypatch.setenv("KVLAB_RDMA_TRANSPORT", "tcp")
    assert not at_once(1, 1)
