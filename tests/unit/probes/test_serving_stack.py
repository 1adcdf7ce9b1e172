"""The compiled module of a stack is loaded from its file, for its name alone proves nothing."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from kvlab.probes import serving_stack

SOURCE = Path(serving_stack.__file__).parents[2]
SHIM = "import sys, types\nsys.modules['lmcache.c_ops'] = types.ModuleType('lmcache.c_ops')\n"
EXTENSION = """
static struct { long refs; void *type, *init; long index; void *copy; const char *name; void *doc; long size;
    void *rest[5]; } definition = {1, 0, 0, 0, 0, "c_ops", 0, 0};
void *PyModuleDef_Init(void *);
void *PyInit_c_ops(void) { return PyModuleDef_Init(&definition); }
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Packages that behave as LMCache 0.5.3 does: `import lmcache.c_ops` always succeeds."""
    for name, text in (("torch", ""), ("lmcache", SHIM)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{SOURCE}")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("torch", "lmcache", "lmcache.c_ops"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def compile_extension(site: Path) -> None:
    target = site / "lmcache" / f"c_ops{EXTENSION_SUFFIXES[0]}"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", target]
    subprocess.run(command, input=EXTENSION, text=True, check=True, capture_output=True)


def test_a_compiled_module_loads_past_the_one_that_the_package_puts_in_its_place(site: Path) -> None:
    compile_extension(site)
    assert serving_stack.extension_failure("lmcache.c_ops") is None


def test_a_missing_compiled_module_is_a_failure_though_its_import_succeeds(site: Path) -> None:
    assert subprocess.run([sys.executable, "-c", "import lmcache.c_ops"], check=False).returncode == 0
    assert "holds no compiled module c_ops" in str(serving_stack.extension_failure("lmcache.c_ops"))


def test_a_compiled_module_that_does_not_load_is_a_failure_with_the_loaders_words(site: Path) -> None:
    (site / "lmcache" / f"c_ops{EXTENSION_SUFFIXES[0]}").write_bytes(b"no library")
    assert "c_ops cannot be loaded: ImportError" in str(serving_stack.extension_failure("lmcache.c_ops"))


def test_a_compiled_module_without_a_device_to_use_it_is_a_failure(site: Path) -> None:
    compile_extension(site)
    (site / "lmcache" / "__init__.py").write_text("torch_device_type = 'cpu'\n")
    assert serving_stack.import_failure("lmcache") is None
    assert "no CUDA device" in str(serving_stack.extension_failure("lmcache.c_ops"))


def test_a_plugin_must_be_linked_to_the_library_that_its_engine_uses(site: Path) -> None:
    assert serving_stack.link_failure("libcuobjclient.so.1") is None
    plugin = site / ".nixl_cu13.mesonpy.libs" / "plugins" / "libplugin_OBJ.so"
    plugin.parent.mkdir(parents=True)
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", plugin, "-Wl,--no-as-needed", "-lm"]
    subprocess.run(command, input="int plugin;", text=True, check=True, capture_output=True)
    assert serving_stack.link_failure("libm.so.6") is None
    assert "does not need libcuobjclient.so.1" in str(serving_stack.link_failure("libcuobjclient.so.1"))
    plugin.write_bytes(b"text")
    assert "not a 64-bit" in str(serving_stack.link_failure("libm.so.6"))
