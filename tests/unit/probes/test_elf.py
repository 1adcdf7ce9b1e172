"""What is read of an ELF file, against a library made here by the compiler."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kvlab.errors import KvlabError
from kvlab.probes import elf

SOURCE = """
struct note { unsigned namesz, descsz, type; char owner[8]; char text[12]; };
__attribute__((section(".note.test"), used, aligned(4)))
const struct note mark = {6, 10, 7, "owner", "some text"};
int answer(void) { return 42; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elf")
    (folder / "mark.c").write_text(SOURCE)
    out = folder / "libmark.so"
    flags = ["-shared", "-fPIC", "-Wl,-soname,libmark.so.3", "-Wl,--no-as-needed", "-lm"]
    subprocess.run(["g++", "-xc", str(folder / "mark.c"), "-o", str(out), *flags], check=True)
    return out


def test_needed_libraries_and_soname_are_read(library: Path) -> None:
    found = elf.read(library)
    assert found.soname == "libmark.so.3"
    assert "libm.so.6" in found.needed
    assert "libc.so.6" in found.needed


def test_a_note_of_ones_own_is_found_among_the_compilers(library: Path) -> None:
    assert elf.Note("owner", 7, b"some text\0") in elf.read(library).notes


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(b"#!/bin/sh\n")
    with pytest.raises(KvlabError, match="not a 64-bit"):
        elf.read(tmp_path / "x.so")


def test_every_truncation_of_a_library_is_refused_or_read_never_a_traceback(
    library: Path, tmp_path: Path
) -> None:
    whole = library.read_bytes()
    cut = tmp_path / "cut.so"
    refused = 0
    for size in [*range(6, 1200, 7), *range(1200, len(whole), 997)]:
        cut.write_bytes(whole[:size])
        try:
            elf.read(cut)
        except KvlabError:
            refused += 1
    assert refused > 100
