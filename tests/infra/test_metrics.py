"""Prometheus behind the Reporter protocol."""

from __future__ import annotations

import urllib.request

import pytest

from infra.metrics import MetricsConfig, PrometheusReporter, serve
from streams.errors import ConfigError
from streams.metrics import METRICS


def shown(reporter: PrometheusReporter) -> str:
    port = serve(reporter, "127.0.0.1", 0)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def test_every_metric_of_the_list_can_be_reported_and_read() -> None:
    reporter = PrometheusReporter()
    for name, metric in METRICS.items():
        labels = dict.fromkeys(metric.labels, "a")
        if metric.kind == "counter":
            reporter.count(name, 2, **labels)
        elif metric.kind == "gauge":
            reporter.gauge(name, 2, **labels)
        else:
            reporter.observe(name, 2, **labels)
    text = shown(reporter)
    for name, metric in METRICS.items():
        assert f"# HELP {name} {metric.meaning} [{metric.unit}]" in text
        sample = f"{name}_count" if metric.kind == "histogram" else name
        assert any(line.startswith(sample) and not line.endswith(" 0.0") for line in text.splitlines())


def test_a_partition_that_moved_away_is_not_on_a_chart_any_more() -> None:
    reporter = PrometheusReporter()
    for partition in ("0", "1"):
        reporter.gauge("recd_open_sessions", 7, partition=partition)
        reporter.count("recd_batches_total", partition=partition)
    reporter.forget(partition="1")
    text = shown(reporter)
    assert 'recd_open_sessions{partition="0"} 7.0' in text
    assert 'recd_open_sessions{partition="1"}' not in text
    assert 'recd_batches_total{partition="1"} 1.0' in text


def test_forgetting_what_was_never_reported_is_no_error() -> None:
    PrometheusReporter().forget(partition="9")


def test_a_taken_port_says_what_to_do() -> None:
    reporter = PrometheusReporter()
    port = serve(reporter, "127.0.0.1", 0)
    with pytest.raises(ConfigError, match="0 takes a free port"):
        serve(reporter, "127.0.0.1", port)


def test_an_impossible_port_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"metrics\.trainer_port"):
        MetricsConfig(trainer_port=70_000)
