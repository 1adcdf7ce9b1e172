"""Counters of an LMCache MP server by one set of names, and waiting until they rest."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from kvlab.probes import lmcache_mp

V056 = """\
# HELP lmcache_mp_lookup_hit_tokens_total Total tokens
# TYPE lmcache_mp_lookup_hit_tokens_total counter
lmcache_mp_lookup_requested_tokens_total{cache_salt="",model_name="m"} 4096.0
lmcache_mp_lookup_hit_tokens_total{cache_salt="",model_name="m"} 2048.0
lmcache_mp_lookup_hit_tokens_total{cache_salt="s",model_name="m"} 256.0
lmcache_mp_lookup_hit_l1_tokens_total{cache_salt="",model_name="m"} 0.0
lmcache_mp_lookup_hit_l2_tokens_total{cache_salt="",model_name="m"} 2304.0
lmcache_mp_lookup_hit_l2_keys_total{cache_salt="",model_name="m"} 9.0
lmcache_mp_lookups_requests_total{model_name="m"} 3.0
lmcache_mp_l2_store_completed_requests_total{l2_name="nixl_store"} 2.0
lmcache_mp_l2_store_completed_objects_chunks_total{cache_salt=""} 24.0
lmcache_mp_l2_prefetch_load_completed_chunks_total{cache_salt=""} 9.0
"""
V045 = """\
lmcache_mp_lookup_requested_tokens_total 4096.0
lmcache_mp_lookup_hit_tokens_total 2048.0
"""


def test_counters_of_0_5_6_are_summed_over_their_labels() -> None:
    assert lmcache_mp.counters(lmcache_mp.parse(V056)) == {
        "lookup_requested_tokens": 4096,
        "lookup_hit_tokens": 2304,
        "lookup_hit_l1_tokens": 0,
        "lookup_hit_l2_tokens": 2304,
        "lookups": 3,
        "l2_stored_chunks": 24,
        "l2_loaded_chunks": 9,
    }


def test_what_0_4_5_does_not_count_is_unknown_not_zero() -> None:
    found = lmcache_mp.counters(lmcache_mp.parse(V045))
    assert found["lookup_hit_tokens"] == 2048
    assert found["lookup_hit_l2_tokens"] is None


def test_a_server_that_does_not_answer_is_a_fact_with_its_reason() -> None:
    facts = lmcache_mp.settle("http://127.0.0.1:1", lookups=5)
    assert facts["available"] is False
    assert "refused" in facts["error"]


class Server(BaseHTTPRequestHandler):
    """An LMCache server whose store of 3 chunks and one lookup finish while it is being asked."""

    asked: ClassVar[int] = 0

    def do_GET(self) -> None:
        kind = self.path.strip("/")
        Server.asked += kind == "metrics"
        pending = max(0, 3 - Server.asked)
        store = {"pending_keys_count": pending, "in_flight_task_count": 0}
        storage = {"l2_adapters": [], "store_controllers": {"default": store}}
        body = {
            "status": json.dumps({"is_healthy": True, "chunk_size": 256, "storage_manager": storage}),
            "lmc_version": '"0.5.6"',
            "metrics": f"lmcache_mp_lookups_requests_total {1.0 if Server.asked > 5 else 0.0}\n",
        }[kind]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    Server.asked = 0
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_settling_waits_for_stores_in_flight_and_for_the_lookup(url: str) -> None:
    facts = lmcache_mp.settle(url, lookups=1)
    assert (facts["storing"], facts["counters"]["lookups"]) == (0, 1)


def test_lookups_that_never_come_are_a_fact_not_an_error(url: str) -> None:
    facts = lmcache_mp.settle(url, lookups=9, timeout_s=2)
    assert facts["counters"]["lookups"] == 1
