"""Prometheus metrics of the S3 side, served on loopback at /metrics."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts what the access log says; `observe` takes its records."""

    def __init__(self, dialect: str) -> None:
        self.registry = CollectorRegistry()
        info = Gauge(
            "kvlab_emulator_info", "The store is emulated.", ["simulated", "dialect"], registry=self.registry
        )
        info.labels("true", dialect).set(1)
        self._requests = Counter(
            "kvlab_emulator_requests",
            "Requests by operation and HTTP status.",
            ["op", "status"],
            registry=self.registry,
        )
        self._bytes = Counter(
            "kvlab_emulator_payload_bytes",
            "Bytes of objects by path (http: in the body, rdma: one-sided) and direction (in, out).",
            ["path", "direction"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "kvlab_emulator_request_seconds",
            "Time from a request's headers to its reply.",
            ["op"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._faults = Counter(
            "kvlab_emulator_faults",
            "Requests struck by a fault, by its name.",
            ["fault"],
            registry=self.registry,
        )
        for path in ("http", "rdma"):
            for direction in ("in", "out"):
                self._bytes.labels(path, direction)

    def observe(self, record: dict[str, object]) -> None:
        """Take one access-log record into account."""
        op = str(record["op"])
        self._requests.labels(op, str(record["status"])).inc()
        self._seconds.labels(op).observe(_number(record["duration_ms"]) / 1000)
        for path, prefix in (("http", "body"), ("rdma", "rdma")):
            for direction in ("in", "out"):
                moved = _number(record[f"{prefix}_{direction}"])
                if moved:
                    self._bytes.labels(path, direction).inc(moved)
        if record["fault"]:
            for name in str(record["fault"]).split(","):
                self._faults.labels(name).inc()

    def application(self) -> web.Application:
        """The page for Prometheus."""

        async def page(request: web.Request) -> web.Response:  # noqa: ARG001
            return web.Response(
                body=generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
            )

        app = web.Application()
        app.router.add_get("/metrics", page)
        return app


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
