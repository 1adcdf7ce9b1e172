"""A scripted array: answers what a test tells it to, and writes down what it was asked."""

from __future__ import annotations

import base64
import json
from collections import deque
from typing import Any

import httpx

from kvlab.objectscale.management import Management
from kvlab.objectscale.session import Store
from kvlab.objectscale.wire import Access

ACCESS = Access("array.example", "admin", "not-the-password")

Answer = httpx.Response | Exception


def error(status: int, code: int, details: str = "no reason", *, retryable: bool = False) -> httpx.Response:
    """A refusal in the API's own form (facts/objectscale.md 1.2)."""
    body = {"code": code, "description": f'"{details}"', "details": details, "retryable": retryable}
    return httpx.Response(status, json=body)


class Array:
    """Logs in whoever has the password. Every other path answers as told by `tell`, the last answer for ever."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.bodies: list[Any] = []
        self.tokens: list[str] = []
        self.slept: list[float] = []
        self.expired = error(401, 4000, "Invalid token")
        self._given = 0
        self._answers: dict[str, deque[Answer]] = {}

    def tell(self, request: str, *answers: Answer | dict[str, Any]) -> None:
        """`tell("GET /vdc/nodes", {...}, error(...))`; a dict is a 200 with that JSON."""
        made = [httpx.Response(200, json=a) if isinstance(a, dict) else a for a in answers]
        self._answers[request] = deque(made)

    def management(self, store: Store | None = None, access: Access = ACCESS) -> Management:
        return Management(access, store, transport=httpx.MockTransport(self.handle), sleep=self.slept.append)

    @property
    def calls(self) -> list[str]:
        """What was asked besides login and logout."""
        return [line for line in self.asked if line not in ("GET /login", "GET /logout")]

    def handle(self, request: httpx.Request) -> httpx.Response:
        """The answer to one request, for httpx.MockTransport."""
        line = f"{request.method} {request.url.raw_path.decode()}"
        self.asked.append(line)
        self.bodies.append(json.loads(request.content) if request.content else None)
        if line != "GET /login" and request.headers.get("X-SDS-AUTH-TOKEN") not in self.tokens:
            return self.expired
        if line in self._answers:
            answers = self._answers[line]
            answer = answers.popleft() if len(answers) > 1 else answers[0]
            if isinstance(answer, Exception):
                raise answer
            return answer
        if line == "GET /login":
            return self._login(request)
        if line == "GET /logout":
            self.tokens.remove(request.headers["X-SDS-AUTH-TOKEN"])
        return httpx.Response(200)

    def _login(self, request: httpx.Request) -> httpx.Response:
        known = base64.b64encode(f"{ACCESS.username}:{ACCESS.password}".encode()).decode()
        if request.headers["Authorization"] != f"Basic {known}":
            return error(401, 4000, "Invalid credentials")
        self._given += 1
        self.tokens.append(f"token-{self._given}")
        headers = {"X-SDS-AUTH-TOKEN": self.tokens[-1], "X-SDS-AUTH-MAX-AGE": "28800"}
        return httpx.Response(200, json={"user": "admin"}, headers=headers)
