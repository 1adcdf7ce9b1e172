"""Results of other tools in kvlab's own form: marked as unproven, for nobody watched the path of their bytes."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError
from kvlab.ttft.result import Pass, Result, Start

UNPROVEN = "imported: no evidence of tier and path came with it"
_NIXLBENCH = re.compile(r"^\s*(\d+)\s+(\d+)\s+([0-9.]+)\s+")


def vllm_serve(path: Path, profile: str, *, simulated: bool) -> Result:
    """A result of `vllm bench serve --save-result --save-detailed`, whose requests become hot passes.

    Raises KvlabError when it is none, or has no times of single requests.
    """
    found = _json(path)
    times, lengths = found.get("ttfts"), found.get("input_lens")
    if (
        not isinstance(times, list)
        or not isinstance(lengths, list)
        or len(times) != len(lengths)
        or not times
    ):
        raise KvlabError(
            f"{path} is no detailed result of vllm bench serve; run it with --save-result --save-detailed."
        )
    result = _result(path, "vllm bench serve", found.get("model_id"), profile, simulated)
    seen: dict[int, int] = {}
    for seconds, tokens in zip(times, lengths, strict=True):
        if not isinstance(seconds, (int, float)) or not isinstance(tokens, int) or tokens < 1:
            raise KvlabError(f"{path} holds {seconds!r} s for {tokens!r} tokens, which is no measurement.")
        index = seen[tokens] = seen.get(tokens, -1) + 1
        result.passes.append(
            Pass(
                start=0,
                profile=profile,
                context=tokens,
                series="hot",
                index=index,
                proven=False,
                # vLLM's client takes the first chunk; a failed request has 0.
                ttft_first_chunk_s=float(seconds) or None,
                prompt_tokens=tokens,
                reasons=[UNPROVEN],
            )
        )
    return result


def nixlbench(path: Path, profile: str, *, simulated: bool) -> Result:
    """The table that nixlbench prints: block size (B), batch size, bandwidth (GB/s), ... Each row is one pass.

    nixlbench has no TTFT: the bandwidth stands in `counters`, the block size as the context. Raises KvlabError
    when there is no such table.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise KvlabError(f"{path} cannot be read as text ({error}); give what nixlbench printed.") from None
    rows = [row for line in lines if (row := _NIXLBENCH.match(line))]
    if not rows:
        raise KvlabError(f"{path} holds no table of nixlbench (block size, batch size, bandwidth).")
    result = _result(path, "nixlbench", None, profile, simulated)
    seen: dict[int, int] = {}
    for row in rows:
        size = int(row[1])
        index = seen[size] = seen.get(size, -1) + 1
        result.passes.append(
            Pass(
                start=0,
                profile=profile,
                context=size,
                series="hot",
                index=index,
                proven=False,
                counters={"batch_size": float(row[2]), "bandwidth_gb_s": float(row[3])},
                reasons=[UNPROVEN],
            )
        )
    return result


def _result(path: Path, tool: str, model: Any, profile: str, simulated: bool) -> Result:
    when = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    made = Result(
        id=f"import-{path.stem}",
        created=when,
        simulated=simulated,
        environment={"about.tool": tool, "about.file": path.name, "imported.tool": tool},
        plan={"name": "import", "model": str(model or "unknown")},
        complete=True,
    )
    made.starts.append(Start(number=0, profile=profile, index=0, at=when))
    return made


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise KvlabError(
            f"{path} cannot be read as JSON ({error}); give a result of vllm bench serve."
        ) from None
    if not isinstance(found, dict):
        raise KvlabError(f"{path} is no result of vllm bench serve: it holds no object.")
    return found
