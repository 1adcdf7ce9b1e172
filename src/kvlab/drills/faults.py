"""The fault interface of an emulated store, as a drill uses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kvlab.errors import KvlabError


@contextmanager
def armed(port: int, kind: str, **fields: Any) -> Iterator[None]:
    """The store misbehaves meanwhile (`kvlab emulator fault kinds`).

    Raises:
        KvlabError: the store refuses the fault, or does not answer.
    """
    _ask(port, "POST", {"kind": kind, **fields})
    try:
        yield
    finally:
        _ask(port, "DELETE")


def _ask(port: int, method: str, body: dict[str, Any] | None = None) -> None:
    import httpx

    url = f"http://127.0.0.1:{port}/faults"
    try:
        answer = httpx.request(method, url, json=body, trust_env=False, timeout=10)
    except httpx.HTTPError as error:
        raise KvlabError(f"the store's fault interface at {url} does not answer: {error}.") from error
    if answer.is_error:
        raise KvlabError(f"the store refuses {method} of the fault {body}: {answer.text}")
