"""vLLM's own benchmark client, one request at a time. Runs in the serving venv, by its path; knows nothing of kvlab.

Each line on stdin is a job {"url", "model", "prompt", "tokens"}; each on stdout the TTFT in seconds that vLLM's client
measured, or a sentence.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any


async def serve() -> None:
    """Answer every line of stdin; the connections are kept between them, as in vLLM's benchmark."""
    import aiohttp
    from vllm.benchmarks.lib.endpoint_request_func import (
        RequestFuncInput,
        async_request_openai_completions,
    )

    async with aiohttp.ClientSession(trust_env=False) as session:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            job: dict[str, Any] = json.loads(line)
            asked = RequestFuncInput(
                prompt=job["prompt"],
                api_url=f"{job['url']}/v1/completions",
                prompt_len=len(job["prompt"]),
                output_len=job["tokens"],
                model=job["model"],
                ignore_eos=True,
            )
            done = await async_request_openai_completions(asked, session)
            print(done.ttft if done.success else f"failed: {done.error[:200]!r}", flush=True)


if __name__ == "__main__":
    asyncio.run(serve())
