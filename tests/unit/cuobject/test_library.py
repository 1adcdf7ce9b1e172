"""The library as a file: names, marks, build."""

from __future__ import annotations

import subprocess
from pathlib import Path

from cuobject_driver import NATIVE

# From `nm -D --undefined-only libplugin_OBJ.so` of nixl-cu13 1.5.1.
WANTED = {
    "_ZN11cuObjClientC1ER10CUObjIOOps15cuObjProto_enum",
    "_ZN11cuObjClientD1Ev",
    "_ZN11cuObjClient11isConnectedEv",
    "_ZN11cuObjClient21cuMemObjGetDescriptorEPvm",
    "_ZN11cuObjClient21cuMemObjPutDescriptorEPv",
    "_ZN11cuObjClient6getCtxEPKv",
    "_ZN11cuObjClient8cuObjGetEPvS0_mll",
    "_ZN11cuObjClient8cuObjPutEPvS0_mll",
}


def output(*command: object) -> str:
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout


def test_it_exports_exactly_the_eight_names_that_the_plugin_needs(library: Path) -> None:
    lines = output("nm", "-D", "--defined-only", library).splitlines()
    assert {line.split()[-1] for line in lines} == WANTED


def test_its_soname_is_that_of_nvidias_library(library: Path) -> None:
    assert "[libcuobjclient.so.1]" in output("readelf", "-d", library)


def test_an_elf_note_marks_it_as_simulated(library: Path) -> None:
    note = output("readelf", "-x", ".note.kvlab", library)
    data = bytes.fromhex(
        "".join("".join(line[13:48].split()) for line in note.splitlines() if "0x" in line[:6])
    )
    name_size, text_size, kind = (int.from_bytes(data[at : at + 4], "little") for at in (0, 4, 8))
    assert (name_size, text_size, kind) == (6, 10, 1)
    assert data[12:18] == b"kvlab\0"
    assert data[20:30] == b"simulated\0"
    assert "NOTE" in output("readelf", "-lW", library)


def test_a_second_make_rebuilds_nothing(library: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in library.parent.rglob("*")}
    said = output("make", "-C", NATIVE, f"BUILD={library.parent}")
    assert "is up to date" in said
    assert {path: path.stat().st_mtime_ns for path in library.parent.rglob("*")} == before
