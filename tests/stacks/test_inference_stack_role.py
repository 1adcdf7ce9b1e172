"""The role inference_stack does what a GPU stack's file asks, on a stack of tiny wheels; needs no network and no GPU.

The wheels hold stand-ins: a compiled `lmcache.c_ops`, and an OBJ plugin that is or is not linked to cuObject.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
OLD, NEW = b"good = False\n", b"good = True\n"
PLUGIN = ".nixl_cu13.mesonpy.libs/plugins/libplugin_OBJ.so"
EXTENSION = """
/* A PyModuleDef without Python.h. */
static struct { long refs; void *type, *init; long index; void *copy; const char *name; void *doc; long size;
    void *rest[5]; } definition = {1, 0, 0, 0, 0, "c_ops", 0, 0};
void *PyModuleDef_Init(void *);
void *PyInit_c_ops(void) { return PyModuleDef_Init(&definition); }
"""


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def wheel(folder: Path, name: str, version: str, files: dict[str, bytes]) -> str:
    """Write a wheel; its hash."""
    place = folder / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    described = {
        f"{info}/METADATA": meta.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, *described, f"{info}/RECORD"]).encode()
    with zipfile.ZipFile(place, "w") as archive:
        for path, content in {**files, **described, f"{info}/RECORD": record}.items():
            archive.writestr(path, content)
    return sha256(place.read_bytes())


def library(folder: Path, source: str, *options: str) -> bytes:
    """A shared object from one line of C."""
    target = folder / "made.so"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", target, *options]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True)
    return target.read_bytes()


class Lab:
    """A folder with wheels, a stack file and its lock, and the role run on them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.wheels, self.venv = folder, folder / "wheels", folder / "venv"
        self.wheels.mkdir()
        (folder / "ansible.cfg").touch()
        link = folder / "collections/ansible_collections/kvlab/lab"
        link.parent.mkdir(parents=True)
        link.symlink_to(ROOT)
        suffix = f".cpython-{PYTHON.replace('.', '')}-x86_64-linux-gnu.so"
        corrected = {"lmcache/store.py": NEW}
        self.stack: dict[str, Any] = {
            "name": "tiny",
            "device": "cuda",
            "cuda": "13.1",
            "driver_minimum": "580.65.06",
            "torch": {"version": "1.0"},
            "host": {"kvlab-no-such-package": "1.0"},
            "extension": {"module": "lmcache.c_ops"},
            "replaced_files": [
                {
                    "file": "lmcache/store.py",
                    "original_sha256": sha256(OLD),
                    "sha256": sha256(NEW),
                    "from": {"distribution": "lmcache", "version": "1.1"},
                    "wheel_sha256": {PYTHON: wheel(self.wheels, "lmcache", "1.1", corrected)},
                }
            ],
        }
        lmcache = {"__init__.py": b"torch_device_type = 'cuda'\n", "store.py": OLD}
        lmcache["c_ops" + suffix] = library(folder, EXTENSION)
        self.packages: dict[str, dict[str, bytes]] = {
            "torch": {"torch/__init__.py": b""},
            "vllm": {"vllm/__init__.py": b""},
            "lmcache": {f"lmcache/{name}": content for name, content in lmcache.items()},
            "nixl": {"nixl/__init__.py": b"", "nixl/_api.py": b""},
            "nixl-cu13": {PLUGIN: library(folder, "int plugin;")},
        }

    def write(self) -> None:
        lines = [
            f"{name}==1.0 --hash=sha256:{wheel(self.wheels, name, '1.0', files)}\n"
            for name, files in self.packages.items()
        ]
        (self.folder / f"tiny-py{PYTHON}.lock").write_text("".join(lines))
        (self.folder / "tiny.yml").write_text(yaml.safe_dump(self.stack))

    def run(self, *options: str, **variables: Any) -> tuple[int, str]:
        """Exit status and output of the role."""
        play = {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars": {
                "ansible_python_interpreter": sys.executable,
                "inference_stack_name": "tiny",
                "inference_stack_dir": str(self.folder),
                "inference_stack_venv": str(self.venv),
                "inference_stack_python": sys.executable,
                "inference_stack_installer": "pip",
                "inference_stack_find_links": str(self.wheels),
                "inference_stack_check_host": False,
                **variables,
            },
            "tasks": [{"ansible.builtin.import_role": {"name": "kvlab.lab.inference_stack"}}],
        }
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]))
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_REMOTE_TMP": str(self.folder / "tmp"),
            "PIP_NO_INDEX": "1",
        }
        done = subprocess.run(
            [Path(sys.executable).with_name("ansible-playbook"), "--inventory", "localhost,", "--diff", *options,
             self.folder / "play.yml"],
            capture_output=True, text=True, timeout=600, env=environment, check=False,
        )  # fmt: skip
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    @property
    def store(self) -> bytes:
        (file,) = self.venv.glob("lib/python3*/site-packages/lmcache/store.py")
        return file.read_bytes()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_files_are_replaced_once_and_a_foreign_one_is_refused(lab: Lab) -> None:
    lab.write()
    status, output = lab.run("--check")
    assert status == 0, output
    assert not lab.venv.exists()
    status, output = lab.run()
    assert status == 0, output
    assert lab.store == NEW
    assert sha256(NEW) in output
    status, output = lab.run()
    assert status == 0, output
    assert "changed=0" in output
    (file,) = lab.venv.glob("lib/python3*/site-packages/lmcache/store.py")
    file.write_bytes(b"by hand\n")
    status, output = lab.run()
    assert status == 2
    assert "neither the original" in output


def test_a_host_without_the_driver_and_the_packages_is_refused_before_anything_is_built(lab: Lab) -> None:
    lab.write()
    status, output = lab.run(inference_stack_check_host=True)
    assert status == 2
    assert "580.65.06" in output
    assert "kvlab-no-such-package is not installed; install 1.0" in output
    assert not lab.venv.exists()


def test_what_must_be_built_from_source_stops_the_role_until_it_is(lab: Lab) -> None:
    lab.stack["source_builds"] = {
        "nixl-cu13": {
            "tag": "1.1.0",
            "repository": "https://example.invalid/nixl",
            "needs": ["libcuobjclient-dev-13-1"],
            "needs_library": "libcuobjclient.so.1",
            "check": "readelf -d",
            "proven": False,
        }
    }
    lab.write()
    status, output = lab.run()
    assert status == 2
    assert "nixl-cu13 must be built from source against CUDA 13.1" in output
    instructions = (lab.venv / "SOURCE-BUILDS.md").read_text()
    for word in ("--branch 1.1.0 https://example.invalid/nixl", "libcuobjclient-dev-13-1", "not been tried"):
        assert word in instructions
    status, output = lab.run(inference_stack_source_built=["nixl-cu13"])
    assert status == 2
    assert "does not need libcuobjclient.so.1" in output
    # As if it had been built: linked to the library, which lies beside it.
    libraries = lab.folder / "lib"
    libraries.mkdir()
    client = libraries / "libcuobjclient.so.1"
    client.write_bytes(library(lab.folder, "int client;", "-Wl,-soname,libcuobjclient.so.1"))
    (plugin,) = lab.venv.glob(f"lib/python3*/site-packages/{PLUGIN}")
    plugin.write_bytes(library(lab.folder, "int plugin;", "-Wl,--no-as-needed", str(client)))
    built: dict[str, object] = {
        "inference_stack_source_built": ["nixl-cu13"],
        "inference_stack_lib_dir": str(libraries),
    }
    status, output = lab.run(**built)
    assert status == 0, output
    assert "changed=1 " in output, "the successful try is marked, and nothing else changes"
    status, output = lab.run(**built)
    assert status == 0, output
    assert "changed=0" in output


def test_another_environment_is_built_beside_the_one_that_serves_and_offered_when_it_was_tried(
    lab: Lab,
) -> None:
    released: dict[str, object] = {"inference_stack_venvs_dir": str(lab.folder / "venvs")}
    offered = lab.venv.with_name("venv.next")
    lab.write()
    status, output = lab.run("--check", **released)
    assert status == 0, output
    assert not (lab.folder / "venvs").exists()
    status, output = lab.run(**released)
    assert status == 0, output
    assert not lab.venv.exists(), "the link is the role serving's to switch"
    first = offered.resolve()
    assert re.fullmatch("tiny-[0-9a-f]{12}", first.name)
    before = sorted(first.rglob("*"))
    lab.stack["summary"] = "other words, the same environment"
    (lab.folder / "tiny.yml").write_text(yaml.safe_dump(lab.stack))
    status, output = lab.run(**released)
    assert status == 0, output
    assert "changed=0" in output
    # One that cannot serve is not offered, and the first is as it was.
    lab.packages["nixl"] = {
        "nixl/__init__.py": b"",
        "nixl/_api.py": b"raise ImportError('broken on purpose')\n",
    }
    lab.write()
    status, output = lab.run(**released)
    assert status == 2
    assert "broken on purpose" in output
    assert offered.resolve() == first
    lab.packages["nixl"]["nixl/_api.py"] = b"mended = True\n"
    lab.write()
    status, output = lab.run(**released)
    assert status == 0, output
    assert offered.resolve() != first
    assert sorted(first.rglob("*")) == before
