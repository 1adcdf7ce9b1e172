"""What a probe needs from an ELF file: its DT_NEEDED names and its notes (System V gABI, chapter 5)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from kvlab.errors import KvlabError

_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_SONAME = 0, 1, 5, 14


@dataclass(frozen=True)
class Note:
    """One ELF note: its owner, type and raw description."""

    owner: str
    type: int
    desc: bytes


@dataclass(frozen=True)
class Elf:
    """What was read of one shared object; `needed` keeps the file's order."""

    soname: str | None
    needed: tuple[str, ...]
    notes: tuple[Note, ...]


def read(path: Path) -> Elf:
    """Parse a little-endian 64-bit ELF file; anything else is a KvlabError."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise KvlabError(f"{path} is not a 64-bit little-endian ELF file.")
    try:
        return _parse(data)
    except (struct.error, IndexError, ValueError, StopIteration) as error:
        raise KvlabError(f"{path} is a damaged ELF file ({error}); install it again.") from error


def _parse(data: bytes) -> Elf:
    (phoff,) = struct.unpack_from("<Q", data, 0x20)
    phentsize, phnum = struct.unpack_from("<HH", data, 0x36)
    segments = [_segment(data, phoff + i * phentsize) for i in range(phnum)]
    loads = [s for s in segments if s[0] == _PT_LOAD]
    soname: str | None = None
    needed: tuple[str, ...] = ()
    for kind, offset, _vaddr, size in segments:
        if kind == _PT_DYNAMIC:
            soname, needed = _dynamic(data, offset, size, loads)
    notes = [
        n for kind, off, _v, size in segments if kind == _PT_NOTE for n in _notes(data[off : off + size])
    ]
    return Elf(soname, needed, tuple(notes))


def _segment(data: bytes, at: int) -> tuple[int, int, int, int]:
    """(type, file offset, virtual address, size in the file) of one program header."""
    kind, _flags, offset, vaddr, _paddr, filesz = struct.unpack_from("<IIQQQQ", data, at)
    return kind, offset, vaddr, filesz


def _dynamic(
    data: bytes, offset: int, size: int, loads: list[tuple[int, int, int, int]]
) -> tuple[str | None, tuple[str, ...]]:
    entries = []
    for at in range(offset, offset + size, 16):
        tag, value = struct.unpack_from("<QQ", data, at)
        if tag == _DT_NULL:
            break
        entries.append((tag, value))
    strtab = next(value for tag, value in entries if tag == _DT_STRTAB)
    base = next(strtab - vaddr + off for _k, off, vaddr, filesz in loads if vaddr <= strtab < vaddr + filesz)

    def text(value: int) -> str:
        return data[base + value : data.index(b"\0", base + value)].decode()

    soname = next((text(v) for tag, v in entries if tag == _DT_SONAME), None)
    return soname, tuple(text(v) for tag, v in entries if tag == _DT_NEEDED)


def _notes(data: bytes) -> list[Note]:
    found, at = [], 0
    while at + 12 <= len(data):
        namesz, descsz, kind = struct.unpack_from("<III", data, at)
        name_at = at + 12
        desc_at = name_at + (namesz + 3) // 4 * 4
        owner = data[name_at : name_at + namesz].rstrip(b"\0").decode(errors="replace")
        found.append(Note(owner, kind, data[desc_at : desc_at + descsz]))
        at = desc_at + (descsz + 3) // 4 * 4
    return found
