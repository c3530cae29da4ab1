"""Prometheus behind the Reporter protocol, and the endpoint that shows it.

Owns: one Prometheus metric for each line of `streams.metrics.METRICS`, and an HTTP endpoint on a loopback address.
Never: invents a metric; the list is the contract.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from streams.errors import ConfigError
from streams.metrics import METRICS, Metric, Name
from streams.strict import STRICT

# Milliseconds from one step of a small model to a backfill that is hours behind.
BUCKETS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000),
    *(20_000, 60_000, 300_000, 1_800_000, 3_600_000, 21_600_000, 86_400_000),
)
Collector = Counter | Gauge | Histogram


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsConfig:
    """Where metrics can be read."""

    __pydantic_config__: ClassVar = STRICT

    enabled: bool = True
    """Whether each process serves Prometheus metrics over HTTP."""
    host: str = "127.0.0.1"
    """Address to listen on. Metrics carry no user data, but loopback is the default all the same."""
    sessionizer_port: int = 0
    """Port of the sessionizer's endpoint; 0 takes a free one and logs it."""
    trainer_port: int = 0
    """Port of the trainer's endpoint; 0 takes a free one and logs it."""

    def __post_init__(self) -> None:
        for name in ("sessionizer_port", "trainer_port"):
            if not 0 <= getattr(self, name) <= 65_535:
                raise ConfigError(f"metrics.{name} must lie in 0..65535; 0 takes a free port")


class PrometheusReporter:
    """Reports into a registry of its own."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self._collectors = {name: _collector(name, metric, self.registry) for name, metric in METRICS.items()}

    def count(self, name: Name, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        collector = self._child(name, labels)
        assert isinstance(collector, Counter), f"{name} is a {METRICS[name].kind}"
        collector.inc(amount)

    def gauge(self, name: Name, value: float, **labels: str) -> None:
        """Set a gauge."""
        collector = self._child(name, labels)
        assert isinstance(collector, Gauge), f"{name} is a {METRICS[name].kind}"
        collector.set(value)

    def observe(self, name: Name, value: float, **labels: str) -> None:
        """Add an observation to a histogram."""
        collector = self._child(name, labels)
        assert isinstance(collector, Histogram), f"{name} is a {METRICS[name].kind}"
        collector.observe(value)

    def forget(self, **labels: str) -> None:
        """Drop every gauge with these labels; counters and histograms keep what happened."""
        for name, metric in METRICS.items():
            if metric.kind == "gauge" and labels.keys() <= set(metric.labels):
                self._collectors[name].remove_by_labels(labels)

    def _child(self, name: Name, labels: dict[str, str]) -> Collector:
        collector = self._collectors[name]
        return collector.labels(**labels) if METRICS[name].labels else collector


def serve(reporter: PrometheusReporter, host: str, port: int) -> int:
    """Serve the metrics in a daemon thread; returns the port, chosen by the system if 0 was asked for."""
    try:
        server, _ = start_http_server(port, addr=host, registry=reporter.registry)
    except OSError as error:
        raise ConfigError(f"metrics cannot listen on {host}:{port}: {error.strerror}; 0 takes a free port") from error
    return int(server.server_port)


def _collector(name: Name, metric: Metric, registry: CollectorRegistry) -> Collector:
    # The client library appends `_total` to a counter by itself.
    if metric.kind == "counter":
        return Counter(name.removesuffix("_total"), _help(metric), metric.labels, registry=registry)
    if metric.kind == "gauge":
        return Gauge(name, _help(metric), metric.labels, registry=registry)
    return Histogram(name, _help(metric), metric.labels, registry=registry, buckets=BUCKETS_MS)


def _help(metric: Metric) -> str:
    return f"{metric.meaning} [{metric.unit}]"
