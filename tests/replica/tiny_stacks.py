"""Stacks of a few kilobytes that install, import and serve: for what happens around a stack, such as an upgrade.

Their vLLM answers what kvlab asks of a server; which stack it belongs to is told by /version. They hold nothing of
vLLM, LMCache or NIXL.
"""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path

import yaml

PLUGIN = ".nixl_cu13.mesonpy.libs/plugins/libplugin_OBJ.so"
VERSIONS = {"torch": "2.13.0", "vllm": "0.32.0", "lmcache": "0.5.6", "nixl": "1.5.1", "nixl-cu13": "1.5.1"}
SERVER = '''
"""Answers as vLLM's server does, as far as kvlab asks. The answer depends on the prompt alone."""
import http.server, json, os, sys
assert WORKS, "this stack is broken on purpose"
class Answers(http.server.BaseHTTPRequestHandler):
    def say(self, text, kind="application/json"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())
    def do_GET(self):
        said = {"/v1/models": {"data": [{"id": "tiny"}]}, "/version": {"version": STACK, "prefix": sys.prefix}}
        idle = "vllm:num_requests_running 0\\nvllm:num_requests_waiting 0\\n"
        self.say(idle if self.path == "/metrics" else json.dumps(said.get(self.path, {})))
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ids = [sum(asked["prompt"]) % 97] * asked["max_tokens"]
        event = {"choices": [{"token_ids": ids, "text": "", "finish_reason": "length"}]}
        self.say("data: " + json.dumps(event) + "\\n\\ndata: [DONE]\\n\\n", "text/event-stream")
    def log_message(self, *words):
        pass
arguments = sys.argv
address = arguments[arguments.index("--host") + 1], int(arguments[arguments.index("--port") + 1])
http.server.ThreadingHTTPServer(address, Answers).serve_forever()
'''


def wheel(folder: Path, name: str, files: dict[str, bytes]) -> str:
    """Write a wheel; its sha256."""
    stem = f"{name.replace('-', '_')}-{VERSIONS[name]}"
    described = {
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSIONS[name]}\n".encode(),
        f"{stem}.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, *described, f"{stem}.dist-info/RECORD"]).encode()
    place = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(place, "w") as archive:
        for path, content in {**files, **described, f"{stem}.dist-info/RECORD": record}.items():
            archive.writestr(path, content)
    return hashlib.sha256(place.read_bytes()).hexdigest()


def make(folder: Path, name: str, python: str, *, works: bool = True) -> Path:
    """Write a stack file, its lock and its wheels, whose folder is returned. `works` False: the server ends at once."""
    wheels = folder / name
    wheels.mkdir(parents=True)
    plugin = folder / "plugin.so"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(plugin)]
    subprocess.run(command, input="int plugin;", text=True, check=True)
    server = f"STACK, WORKS = {name!r}, {works!r}\n{SERVER}".encode()
    packages = {
        "torch": {"torch/__init__.py": b""},
        "vllm": {
            "vllm/__init__.py": b"",
            "vllm/entrypoints/__init__.py": b"",
            "vllm/entrypoints/openai/__init__.py": b"",
            "vllm/entrypoints/openai/api_server.py": server,
        },
        "lmcache": {"lmcache/__init__.py": b""},
        "nixl": {"nixl/__init__.py": b"", "nixl/_api.py": b""},
        "nixl-cu13": {PLUGIN: plugin.read_bytes()},
    }
    hashes = {package: wheel(wheels, package, files) for package, files in packages.items()}
    lines = [
        f"{package}=={VERSIONS[package]} --hash=sha256:{digest}\n"
        for package, digest in hashes.items()
        if package != "torch"
    ]
    (folder / f"{name}-py{python}.lock").write_text("".join(lines))
    stack = {
        "name": name,
        "device": "cpu",
        "cuda": None,
        "driver_minimum": None,
        "torch": {"version": VERSIONS["torch"]},
        "packages": {package: {"version": VERSIONS[package]} for package in hashes if package != "torch"},
    }
    (folder / f"{name}.yml").write_text(yaml.safe_dump(stack))
    return wheels
