"""/metrics of the running program, against its page in docs/."""
import re

import pytest
from program import ROOT, Server
from prometheus_client.parser import text_string_to_metric_families

PAGE = ROOT / "docs/metrics.md"
NAME = re.compile(r"`((?:vllm:|tandem:|http_|process_)[a-z0-9_]+)`")


def scrape(server):
    status, text = server.get("/metrics")
    assert status == 200
    return text.decode()


def served_names(text):
    """As the page writes them: counters with their _total."""
    return set(re.findall(r"^# TYPE (\S+) ", text, re.M))


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        status, _ = running.post("/v1/completions", {"prompt": "a", "max_tokens": 3, "ignore_eos": True})
        assert status == 200
        yield running


def test_the_page_names_what_is_served_and_nothing_else(server):
    described = {n for n in NAME.findall(PAGE.read_text()) if not n.endswith("_")}
    served = served_names(scrape(server))
    assert described - served == set()
    assert served - described == set()


def test_no_series_appears_twice(server):
    text = scrape(server)
    series = [line.rsplit(" ", 1)[0] for line in text.splitlines() if line and not line.startswith("#")]
    assert len(series) == len(set(series))
    assert len(served_names(text)) == len(re.findall(r"^# TYPE ", text, re.M))


def test_it_is_prometheus_text(server):
    families = {f.name: f for f in text_string_to_metric_families(scrape(server))}
    assert families["vllm:prompt_tokens"].type == "counter"
    assert families["vllm:e2e_request_latency_seconds"].type == "histogram"


def value(server, name):
    return sum(float(line.rsplit(" ", 1)[1]) for line in scrape(server).splitlines() if re.match(rf"{re.escape(name)}[{{ ]", line))


def test_times_add_up(server):
    """Each is a part of the whole: no time is measured against a clock of its own."""
    total = value(server, "vllm:e2e_request_latency_seconds_sum")
    parts = [value(server, f"vllm:request_{part}_time_seconds_sum") for part in ("queue", "prefill", "decode")]
    assert all(part >= 0 for part in parts) and total > 0
    assert sum(parts) <= total * 1.000001
    assert value(server, "vllm:request_inference_time_seconds_sum") == pytest.approx(parts[1] + parts[2])
    assert parts[0] + parts[1] == pytest.approx(value(server, "vllm:time_to_first_token_seconds_sum"))


def test_cached_tokens_have_a_source(server):
    body = {"prompt": "the same long prompt " * 40, "max_tokens": 1}
    for _ in range(2):
        assert server.post("/v1/completions", body)[0] == 200
    text = scrape(server)
    found = {source: float(re.search(rf'prompt_tokens_by_source_total{{[^}}]*source="{source}"}} (\S+)', text)[1])
             for source in ("local_compute", "local_cache_hit", "external_kv_transfer")}
    assert found["local_cache_hit"] >= 64 and found["external_kv_transfer"] == 0
    assert sum(found.values()) == value(server, "vllm:prompt_tokens_total")
    assert found["local_cache_hit"] == value(server, "vllm:prompt_tokens_cached_total")
