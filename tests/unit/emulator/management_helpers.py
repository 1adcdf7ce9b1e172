"""The management API of a running emulator. Every reply is held against the shapes in the vendor's description."""

from __future__ import annotations

import json
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jsonschema
from emulator_helpers import Emulator, free_port

PASSWORD = "not-the-password"
ADMINISTRATORS = {
    "users": [
        {"username": "root", "password": PASSWORD},
        {"username": "blue-admin", "password": PASSWORD, "namespace": "blue"},
        {"username": "shut", "password": PASSWORD, "locked": True},
    ]
}
_SHAPES = Path(__file__).parents[2] / "fixtures/objectscale/replies.json"


def _closed(shape: Any) -> Any:
    """The shape, refusing names that it does not have."""
    if isinstance(shape, dict):
        made = {name: _closed(value) for name, value in shape.items()}
        return made | {"additionalProperties": False} if "properties" in shape else made
    return shape


SHAPES: dict[str, Any] = _closed(json.loads(_SHAPES.read_text()))


@dataclass
class Managed(Emulator):
    """An emulator with its management API, and clients for that."""

    management_port: int = field(default_factory=free_port)
    token: str = ""

    def __post_init__(self) -> None:
        credentials = self.folder / "administrators.json"
        credentials.touch(mode=0o600)
        credentials.write_text(json.dumps(ADMINISTRATORS))
        self.arguments += ["--management-port", str(self.management_port)]
        self.arguments += ["--management-credentials", str(credentials)]

    @property
    def management_url(self) -> str:
        return f"https://127.0.0.1:{self.management_port}"

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.state / "tls/cert.pem")

    def http(self) -> httpx.Client:
        return httpx.Client(base_url=self.management_url, verify=self.trust(), trust_env=False, timeout=30)

    def login(self, name: str = "root", password: str = PASSWORD) -> httpx.Response:
        with self.http() as http:
            return http.get("/login", auth=(name, password), headers={"Accept": "application/json"})

    def enter(self, name: str = "root") -> Api:
        """A client that is logged in."""
        return Api(self, self.login(name).headers["X-SDS-AUTH-TOKEN"])

    def management_log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.state / "management.log").read_text().splitlines()]


@dataclass
class Api:
    """Requests with a token."""

    array: Managed
    token: str

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        headers = {"X-SDS-AUTH-TOKEN": self.token, "Accept": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        with self.array.http() as http:
            return http.request(method, path, json=body, headers=headers)

    def ok(self, method: str, path: str, body: Any = None, status: int = 200, **headers: str) -> Any:
        """The document of a request that must succeed; its shape must be the vendor's."""
        reply = self.send(method, path, body, **headers)
        assert reply.status_code == status, reply.text
        if not reply.content:
            return {}
        document = reply.json()
        jsonschema.validate(document, SHAPES.get(_shape(method, path), {"type": "object"}))
        return document

    def refused(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, int]:
        """(code, HTTP status) of a request that must be refused."""
        reply = self.send(method, path, body, **headers)
        assert reply.is_error, reply.text
        error = reply.json()
        assert set(error) == {"code", "description", "details", "retryable"}
        return error["code"], reply.status_code


def _shape(method: str, path: str) -> str:
    """The key of a request among the shapes."""
    plain, _, query = path.partition("?")
    if plain == "/iam":
        return f"{method} /iam?{query.partition('&')[0]}"
    for name in SHAPES:
        pattern = re.escape(name).replace(r"\{\}", "[^/]+")
        if re.fullmatch(pattern, f"{method} {plain}".replace("\\", "")):
            return name
    return ""
