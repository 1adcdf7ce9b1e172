"""Builds the library and its driver, and talks to a driver process."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[3]
NATIVE = ROOT / "native/cuobject"
HERE = Path(__file__).parent

SANITIZERS = {
    "address": "-fsanitize=address,undefined -fno-sanitize-recover=undefined",
    "thread": "-fsanitize=thread",
}


@dataclass(frozen=True)
class Build:
    library: Path
    driver: Path


def build_library(folder: Path, flags: str = "") -> Path:
    """Runs make as a role or a user does, but warnings are errors; the library in `folder`."""
    # Without optimising the sanitized builds take a third of the time.
    level = "-O0" if flags else "-O1"
    options = [f"BUILD={folder}", f"SANITIZE={flags}", f"CXXFLAGS={level} -g1 -Werror"]
    subprocess.run(["make", "-s", "-j2", "-C", NATIVE, *options], check=True)
    return folder / "libcuobjclient.so.1"


def build_driver(sanitizer: str, folder: Path) -> Build:
    """The library and the driver with a sanitizer, in `folder`."""
    flags = SANITIZERS[sanitizer]
    library, driver = build_library(folder, flags), folder / "driver"
    compile_program([HERE / "driver.cpp"], driver, flags, [f"-Wl,-rpath,{folder}", str(library)])
    return Build(library, driver)


def compile_program(sources: list[Path], program: Path, flags: str, extra: list[str]) -> None:
    command = [
        os.environ.get("CXX", "g++"),
        "-std=c++17",
        "-O0",
        "-g1",
        "-pthread",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]
    subprocess.run(
        [*command, *flags.split(), f"-I{NATIVE}", "-o", str(program), *map(str, sources), *extra], check=True
    )


def write_config(path: Path, logging: dict[str, str] | None = None, **properties: object) -> Path:
    """A cufile.json with the loopback address, unless `properties` says otherwise."""
    properties = {"rdma_dev_addr_list": ["127.0.0.1"]} | properties
    path.write_text(json.dumps({"logging": logging or {}, "properties": properties}))
    return path


class Client:
    """A driver process. `ask` sends a command and returns the words of the answer."""

    def __init__(self, build: Build, config: Path | None, **environment: str) -> None:
        names = ("CUFILE_ENV_PATH_JSON", "CUOBJ_ENV_PATH_JSON", "KVLAB_CUOBJ_TCP")
        clean = {k: v for k, v in os.environ.items() if k not in names}
        if config is not None:
            clean["CUFILE_ENV_PATH_JSON"] = str(config)
        # A file, because a pipe that nobody reads would in the end block the log.
        self.errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [build.driver],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=clean | environment,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.table.unlink(missing_ok=True)
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            assert stream is not None
            stream.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def table(self) -> Path:
        return Path(f"/dev/shm/kvlab-cuobj-{self.pid}")

    def send(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self) -> list[str]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the driver ended: {self.said()}")
        return line.split()

    def answered(self, seconds: float) -> bool:
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def ask(self, *words: object) -> list[str]:
        self.send(*words)
        return self.answer()

    def number(self, *words: object) -> int:
        return int(self.ask(*words)[0])

    def memory(self, size: int, value: int = 0, *, client: int = 0) -> int:
        """Registered memory filled with one value; its address."""
        address = self.number("alloc", size, value)
        assert self.number("register", client, address, size) == 0
        return address

    def dump(self, address: int, size: int, path: Path) -> bytes:
        self.ask("dump", address, size, path)
        return path.read_bytes()

    def finish(self) -> str:
        """Ends the driver as a program ends; what it wrote to standard error. It must have succeeded."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        assert self.process.returncode == 0, self.said()
        return self.said()

    def said(self) -> str:
        """What the driver wrote to standard error so far."""
        self.errors.seek(0)
        return self.errors.read()
