"""Writes monitoring/grafana/kvlab.json: ci/dashboard.py [--check]

A dashboard is a thousand lines of JSON of which a dozen say something; they stand here. Exit 1 if the file was not so.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "monitoring/grafana/kvlab.json"
WIDTH, HEIGHT = 12, 8
HOSTS = 'instance=~"$instance"'


@dataclass(frozen=True)
class Panel:
    """One figure: its question as the title, and PromQL by legend."""

    title: str
    unit: str
    queries: dict[str, str]
    description: str
    most: float | None = None


def rate(metric: str, labels: str = "", by: str = "instance") -> str:
    """Rate of a counter over the dashboard's interval, summed by some labels."""
    chosen = f"{HOSTS}, {labels}" if labels else HOSTS
    return f"sum by ({by}) (rate({metric}{{{chosen}}}[$__rate_interval]))"


def quantile(share: float, metric: str) -> str:
    """A quantile of a histogram."""
    return f"histogram_quantile({share}, {rate(f'{metric}_bucket', by='le, instance')})"


ROWS: dict[str, list[Panel]] = {
    "Does the cache answer?": [
        Panel(
            "Time to first token",
            "s",
            {
                f"p{int(share * 100)} {{{{instance}}}}": quantile(share, "vllm:time_to_first_token_seconds")
                for share in (0.5, 0.95)
            },
            "Rises to that of a cold prompt when the cache stops answering.",
        ),
        Panel(
            "Share of looked-up tokens that were found",
            "percentunit",
            {
                "in all {{instance}}": rate("kvlab_lmcache_lookup_tokens_total", 'result="hit"')
                + " / "
                + rate("kvlab_lmcache_lookup_tokens_total", 'result="requested"'),
                "in the store {{instance}}": rate("kvlab_lmcache_lookup_tokens_total", 'result="hit_store"')
                + " / "
                + rate("kvlab_lmcache_lookup_tokens_total", 'result="requested"'),
            },
            "Zero while prompts repeat: wrong bucket, other hash seed, revoked key. A fall of the store's share alone: "
            "another tier answers.",
            most=1,
        ),
        Panel(
            "LMCache healthy",
            "bool_yes_no",
            {
                "server {{instance}}": f"kvlab_lmcache_healthy{{{HOSTS}}}",
                "in process {{instance}}": f"lmcache:lmcache_is_healthy{{{HOSTS}}}",
            },
            "In degraded mode LMCache answers and caches nothing.",
            most=1,
        ),
        Panel(
            "Prompt tokens by source",
            "short",
            {"{{source}} {{instance}}": rate("vllm:prompt_tokens_by_source_total", by="source, instance")},
            "vLLM's own account: computed, from its prefix cache, or from outside.",
        ),
    ],
    "Which way do the bytes go?": [
        Panel(
            "Received by the NICs against loaded by LMCache",
            "Bps",
            {
                "NICs {{instance}}": rate("kvlab_rdma_payload_bytes_total", 'direction="received"'),
                "LMCache {{instance}}": rate("kvlab_lmcache_store_bytes_total", 'direction="loaded"'),
            },
            "With profile s3-rdma the NICs carry at least what LMCache loads. Less: HTTP, or empty objects.",
        ),
        Panel(
            "Sent by the NICs against stored by LMCache",
            "Bps",
            {
                "NICs {{instance}}": rate("kvlab_rdma_payload_bytes_total", 'direction="sent"'),
                "LMCache {{instance}}": rate("kvlab_lmcache_store_bytes_total", 'direction="stored"'),
            },
            "The same for what is written.",
        ),
        Panel(
            "Pause frames",
            "pps",
            {
                "{{netdev}} prio {{priority}} {{direction}} {{instance}}": rate(
                    "kvlab_pause_frames_total", by="instance, netdev, priority, direction"
                )
            },
            "Congestion, or PFC that differs between host and switch.",
        ),
        Panel(
            "RDMA trouble",
            "cps",
            {
                "{{counter}} {{device}} {{instance}}": rate(
                    "kvlab_rdma_events_total",
                    'counter=~"out_of_sequence|packet_seq_err|rnr_nak_retry_err|local_ack_timeout_err|np_cnp_sent'
                    '|rp_cnp_handled|rx_icrc_encapsulated"',
                    by="instance, device, counter",
                )
            },
            "Lost or reordered packets, and the congestion notifications of ECN.",
        ),
    ],
    "Is there room?": [
        Panel(
            "Bytes in the bucket",
            "bytes",
            {
                "{{bucket}}": f"kvlab_bucket_bytes{{{HOSTS}}}",
                "quota of {{bucket}}": f"kvlab_bucket_quota_bytes{{{HOSTS}}}",
            },
            "A full bucket stores nothing more, and no request fails.",
        ),
        Panel(
            "Objects in the bucket",
            "short",
            {"{{bucket}}": f"kvlab_bucket_objects{{{HOSTS}}}"},
            "One object a chunk and rank.",
        ),
        Panel(
            "vLLM's own KV cache",
            "percentunit",
            {"{{instance}}": f"vllm:kv_cache_usage_perc{{{HOSTS}}}"},
            "Full: requests wait, or are preempted and computed again.",
            most=1,
        ),
        Panel(
            "Requests running and waiting",
            "short",
            {
                "running {{instance}}": f"vllm:num_requests_running{{{HOSTS}}}",
                "waiting {{instance}}": f"vllm:num_requests_waiting{{{HOSTS}}}",
            },
            "Long queues make a long time to first token that no cache mends.",
        ),
    ],
}


def drawn(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    """A panel as Grafana keeps it."""
    field: dict[str, Any] = {
        "unit": panel.unit,
        "min": 0,
        "custom": {"fillOpacity": 8, "showPoints": "never"},
    }
    if panel.most is not None:
        field["max"] = panel.most
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": x, "y": y, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": field, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": expression, "legendFormat": legend}
            for at, (legend, expression) in enumerate(panel.queries.items())
        ],
    }


def dashboard() -> dict[str, Any]:
    """The whole of it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": 2 * WIDTH, "h": 1},
            }
        )
        y += 1
        for at, panel in enumerate(row):
            panels.append(drawn(panel, len(panels) + 1, WIDTH * (at % 2), y + HEIGHT * (at // 2)))
        y += HEIGHT * ((len(row) + 1) // 2)
    prometheus = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "title": "kvlab: KV-cache offload",
        "uid": "kvlab",
        "tags": ["kvlab"],
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                {
                    "name": "instance",
                    "type": "query",
                    "label": "Host",
                    "datasource": prometheus,
                    "query": {"query": "label_values(kvlab_info, instance)", "refId": "instance"},
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                },
            ]
        },
        "annotations": {
            "list": [
                {
                    "name": "Alerts",
                    "enable": True,
                    "iconColor": "red",
                    "datasource": prometheus,
                    "expr": 'ALERTS{alertname=~"Kvlab.*", alertstate="firing"}',
                    "titleFormat": "{{alertname}}",
                    "textFormat": "{{instance}}",
                }
            ]
        },
        "panels": panels,
    }


def main(check: bool) -> int:
    """Write or compare the file; 1 if it was not as it should be."""
    wanted = json.dumps(dashboard(), indent=1) + "\n"
    same = TARGET.exists() and TARGET.read_text("utf-8") == wanted
    if not same:
        print(f"{TARGET.name} is not as ci/dashboard.py says" + ("" if check else "; written"))
        if not check:
            TARGET.write_text(wanted, "utf-8")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
