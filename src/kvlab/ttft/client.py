"""The client that measures: streamed completions, sent at the same moment, each over a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx

from kvlab.errors import KvlabError
from kvlab.probes import Facts, completion

CONNECT_S = 10.0
"""For the request that opens the connection; a service that is up answers it within milliseconds."""


@dataclass(frozen=True)
class Client:
    """Sends prompts to vLLM at `url` (without /v1); a silence of `silence_s` seconds ends a request."""

    url: str
    max_tokens: int
    silence_s: float

    def ask(self, prompts: Sequence[Sequence[int]]) -> list[Facts]:
        """The answers to prompts (token ids) sent at once, as probes.completion gives them, in order.

        Each connection is open before its clock starts. Raises KvlabError when the service does not answer.
        """
        together = threading.Barrier(len(prompts))
        with ThreadPoolExecutor(len(prompts)) as pool:
            return list(pool.map(lambda ids: self._ask_one(ids, together), prompts))

    def _ask_one(self, ids: Sequence[int], together: threading.Barrier) -> Facts:
        job = {"url": self.url, "prompt_ids": list(ids), "max_tokens": self.max_tokens}
        with httpx.Client(trust_env=False) as client:
            try:
                client.get(f"{self.url}/health", timeout=CONNECT_S)
            except httpx.HTTPError as error:
                together.abort()
                raise KvlabError(
                    f"vLLM at {self.url} does not answer ({error}); see its log under the lab's log folder."
                ) from error
            try:
                together.wait(CONNECT_S * 2)
            except threading.BrokenBarrierError:
                raise KvlabError(
                    f"vLLM at {self.url} does not answer each of the requests at once."
                ) from None
            return completion.ask(client, {**job, "timeout_s": self.silence_s})
