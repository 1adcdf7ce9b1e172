"""The 81 characters of a descriptor."""

from __future__ import annotations

import pytest

from kvlab.emulator import rdma

GOOD = "00007f967023c010:00300000:6d720001:aa7f:00211b:1:00000000000000000000ffff0a000905"


def test_the_fields_are_read_in_their_order() -> None:
    assert rdma.parse(GOOD) == rdma.Descriptor(
        addr=0x7F967023C010,
        size=0x300000,
        rkey=0x6D720001,
        lid=0xAA7F,
        dctn=0x211B,
        gid_present=True,
        gid=bytes.fromhex("00000000000000000000ffff0a000905"),
    )


@pytest.mark.parametrize(
    ("gid", "address"),
    [("00000000000000000000ffff0a000905", "10.0.9.5"), ("fd000000000000000000000000000001", "fd00::1")],
)
def test_the_address_is_that_of_the_gid(gid: str, address: str) -> None:
    assert str(rdma.parse(GOOD[:-32] + gid).address) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD[:-1],
        GOOD + "0",
        GOOD + "\n",
        " " + GOOD,
        GOOD.upper(),
        GOOD.replace(":", ";"),
        GOOD.replace(":1:", ":2:"),
        GOOD.replace(":aa7f:", ":0xaa:"),
        GOOD.replace("00007f967023c010", "+0007f967023c010"),
        GOOD.replace("00007f967023c010", "0000\uff17f967023c010"),
        GOOD.replace("6d720001", "6d72_001"),
        GOOD + ":00007f967023c010:00300000",
    ],
)
def test_any_other_form_is_an_invalid_token(text: str) -> None:
    with pytest.raises(rdma.DescriptorError, match="not of the form") as refused:
        rdma.parse(text)
    assert (refused.value.code, refused.value.status) == ("InvalidRDMAToken", 400)


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("00300000", "00000000"),
        GOOD.replace("00007f967023c010", "0" * 16),
        GOOD.replace("00007f967023c010", "f" * 16),
    ],
)
def test_an_empty_or_wrapping_range_is_an_invalid_token(text: str) -> None:
    with pytest.raises(rdma.DescriptorError, match="names no range"):
        rdma.parse(text)


def test_the_last_byte_of_the_address_space_may_be_named() -> None:
    text = "fffffffffffff000:00001000" + GOOD[25:]
    assert rdma.parse(text).addr + rdma.parse(text).size == 1 << 64


@pytest.mark.parametrize("text", [GOOD.replace(":1:", ":0:"), GOOD[:-32] + "0" * 32])
def test_without_a_gid_there_is_no_client_to_reach(text: str) -> None:
    with pytest.raises(rdma.DescriptorError, match="carries no GID"):
        rdma.parse(text)
