"""A checkout, a stack and a folder of wheels, all tiny: pip and uv work on them as on an index."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path
from typing import NamedTuple

STACK = """\
name: tiny
summary: two packages
proven: resolved
python: ["3.11"]
device: cpu
torch: {version: 2.0.0}
packages:
  alpha: {distribution: alpha, version: "1.0"}
left_out: {}
overrides: {}
"""
PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "kvlab"
version = "0"
[tool.setuptools]
py-modules = []
"""


class Lab(NamedTuple):
    """Where things are."""

    project: Path
    stacks: Path
    index: Path


def wheel(folder: Path, name: str, version: str, tag: str = "py3-none-any") -> str:
    """Make an empty wheel; returns its sha256."""
    file = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text)}\n"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), record + f"{info}/RECORD,,\n")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def lab(root: Path) -> Lab:
    """A lab's checkout with the stack `tiny`, and an index with all it needs."""
    made = Lab(root / "project", root / "project/stacks", root / "index")
    made.stacks.mkdir(parents=True)
    made.index.mkdir()
    (made.project / "playbooks").mkdir()
    (made.project / "playbooks/mirror_list.yml").write_text("[]\n")
    (made.project / "pyproject.toml").write_text(PROJECT)
    (made.project / "requirements.txt").write_text("beta>=1   # a reason\n-e .\n")
    (made.stacks / "tiny.yml").write_text(STACK)
    hashes = {name: wheel(made.index, name, "1.0") for name in ("alpha", "beta", "pip", "wheel")}
    # Another Python's file of the same version: its hash stands in the lock as well, and it must not be taken.
    other = wheel(made.index, "alpha", "1.0", "cp312-cp312-manylinux_2_17_x86_64")
    lock = f"alpha==1.0 \\\n    --hash=sha256:{hashes['alpha']} \\\n    --hash=sha256:{other}\n"
    (made.stacks / "tiny-py3.11.lock").write_text(lock)
    wheel(made.index, "torch", "2.0.0+cpu", "cp311-cp311-manylinux_2_28_x86_64")
    return made
