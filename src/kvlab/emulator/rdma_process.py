"""The `process` transport: a client's memory on this machine, by process_vm_readv and process_vm_writev.

What a NIC checks in hardware is checked here against the registration table that the client's library keeps
in /dev/shm (layout and locks: native/cuobject/PROTOCOL.md).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvlab.emulator.rdma_descriptor import Descriptor, RdmaError
from kvlab.emulator.rdma_files import CHUNK, reserve, scratch, write_all

_DIRECTORY = Path("/dev/shm")
_HEADER = struct.Struct("=8sIIII256s")
_SLOT = struct.Struct("=QQIII")
_GID_BYTES = 16
_MAGIC = b"KVLABCU1"
_HEADER_BYTES, _SLOT_BYTES = 4096, 32
_FLOCK = struct.Struct("@hhqqi4x")

# Copying to an address whose offset in its page is a little above the source's is four times slower (measured
# on Zen: 1 to 31 bytes; loads seem to depend on the stores before them). Buffers of Python clients lie so, at 16.
_PAGE, _ALIASED = 4096, 32

# One system call moves at most 2 GiB less a page.
_MAX_CALL = 1 << 30

_libc = ctypes.CDLL(None, use_errno=True)


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


for _call in (_libc.process_vm_readv, _libc.process_vm_writev):
    _call.restype = ctypes.c_ssize_t
    _call.argtypes = (
        ctypes.c_int,
        ctypes.POINTER(_IoVec),
        ctypes.c_ulong,
        ctypes.POINTER(_IoVec),
        ctypes.c_ulong,
        ctypes.c_ulong,
    )


def pull(d: Descriptor, fd: int, length: int, dc_key: int) -> int:
    """Copies `length` bytes of the client's memory to the file, from offset 0."""
    with _granted(d, dc_key):
        reserve(fd, length)
        done = 0
        while done < length:
            count = min(CHUNK, length - done)
            _move(_libc.process_vm_readv, d, scratch.address, d.addr + done, count)
            write_all(fd, scratch.view[:count], done)
            done += count
    return length


def push(d: Descriptor, fd: int, offset: int, length: int, dc_key: int) -> int:
    """Copies `length` bytes of the file, from `offset`, to the client's memory."""
    with _granted(d, dc_key):
        start = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        # Private and writable only because ctypes gives no address of a read-only buffer; nothing is written.
        with mmap.mmap(fd, offset - start + length, flags=mmap.MAP_PRIVATE, offset=start) as window:
            anchor = ctypes.c_char.from_buffer(window)
            try:
                base = ctypes.addressof(anchor) + offset - start
                if 0 < (d.addr - base) % _PAGE < _ALIASED:
                    _push_shifted(d, fd, offset, length)
                else:
                    _move(_libc.process_vm_writev, d, base, d.addr, length)
            finally:
                del anchor
    return length


def _push_shifted(d: Descriptor, fd: int, offset: int, length: int) -> None:
    """Through a buffer that lies half a page off, so that neither copy is an aliased one."""
    shift = (offset + _PAGE // 2) % _PAGE
    room = CHUNK - _PAGE
    done = 0
    while done < length:
        count = min(room, length - done)
        got = os.preadv(fd, [scratch.view[shift : shift + count]], offset + done)
        if not got:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        _move(_libc.process_vm_writev, d, scratch.address + shift, d.addr + done, got)
        done += got


def _move(call: ctypes._NamedFuncPointer, d: Descriptor, local: int, remote: int, length: int) -> None:
    done = 0
    while done < length:
        count = min(_MAX_CALL, length - done)
        here, there = _IoVec(local + done, count), _IoVec(remote + done, count)
        moved = call(d.dctn, here, 1, there, 1, 0)
        if moved <= 0:
            raise _failure(d, ctypes.get_errno())
        done += moved


def _failure(d: Descriptor, number: int) -> RdmaError:
    if number == errno.EPERM:
        return RdmaError(
            f"The kernel forbids access to the memory of process {d.dctn}: run the endpoint as that process's"
            " user; where kernel.yama.ptrace_scope is 2 or 3 set it to 1, or use the tcp transport."
        )
    if number == errno.ESRCH:
        return RdmaError(f"Process {d.dctn} has ended.")
    if number == errno.EFAULT:
        return RdmaError(f"Memory that process {d.dctn} registered is no longer there.")
    return RdmaError(f"Access to the memory of process {d.dctn} failed: {os.strerror(number)}.")


@contextmanager
def _granted(d: Descriptor, dc_key: int) -> Iterator[None]:
    """Checks as a NIC does, and holds the registration in place until the block ends."""
    path = _DIRECTORY / f"kvlab-cuobj-{d.dctn}"
    try:
        table = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise RdmaError(f"No process {d.dctn} uses the software cuObject on this machine.") from None
    except PermissionError:
        raise RdmaError(
            f"The registration table of process {d.dctn} is another user's; run the endpoint as that user."
        ) from None
    try:
        _check_owner(d, table)
        gids = _check_header(d, table, dc_key)
        index = d.rkey & 0xFFFF
        where = _HEADER_BYTES + index * _SLOT_BYTES
        held = _try_read_lock(table, where)
        addr, size, rkey, _, address = _SLOT.unpack(os.pread(table, _SLOT.size, where))
        if not held or rkey != d.rkey or rkey == 0:
            raise RdmaError(
                f"Remote access error: rkey {d.rkey:08x} names no registration of process {d.dctn}."
            )
        # With several NICs a key is one NIC's own.
        if not gids.startswith(d.gid, address * _GID_BYTES):
            raise RdmaError(
                f"Registration {d.rkey:08x} of process {d.dctn} is not at the address {d.address} of the"
                " descriptor."
            )
        if d.addr < addr or d.addr + d.size > addr + size:
            raise RdmaError(
                f"Remote access error: {d.size} bytes at {d.addr:#x} do not lie within the {size} bytes at "
                f"{addr:#x} that rkey {d.rkey:08x} allows."
            )
        yield
    finally:
        os.close(table)


def _check_owner(d: Descriptor, table: int) -> None:
    # The library holds a lock on the first byte as long as its process lives.
    if _try_read_lock(table, 0):
        raise RdmaError(f"Process {d.dctn} has ended; its registration table is left over.")
    try:
        owner = Path(f"/proc/{d.dctn}").stat().st_uid
    except FileNotFoundError:
        raise RdmaError(f"Process {d.dctn} has ended.") from None
    # Else any user could offer up the memory of a process that never registered it.
    if os.fstat(table).st_uid != owner:
        raise RdmaError(f"The registration table of process {d.dctn} was not made by that process's user.")


def _check_header(d: Descriptor, table: int, dc_key: int) -> bytes:
    """The GIDs of the process, 16 bytes each, of which a registration has one."""
    header = os.pread(table, _HEADER.size, 0)
    if len(header) < _HEADER.size or not header.startswith(_MAGIC):
        raise RdmaError(
            f"The registration table of process {d.dctn} has another format; rebuild libcuobjclient.so.1."
        )
    _, _, pid, key, _, gids = _HEADER.unpack(header)
    if pid != d.dctn:
        raise RdmaError(f"The registration table of process {d.dctn} is that of process {pid}.")
    if key != dc_key:
        raise RdmaError(
            f"The DC key of process {d.dctn} is not this endpoint's; set the same rdma_dc_key on both sides."
        )
    return bytes(gids)


def _try_read_lock(fd: int, byte: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, byte, 1, 0))
    except BlockingIOError:
        return False
    return True
