"""Ports, signals, drain, closed connections, batching, placement: the running program from outside."""
import json
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from program import SCALE, Server, refused, sse_events

# Ids and log-probabilities, so that equal means equal to the bit of what the API shows.
GREEDY = {"temperature": 0, "ignore_eos": True, "return_token_ids": True, "logprobs": 1}


def complete(server, prompt, max_tokens=24, **more):
    status, answer = server.post("/v1/completions", {"prompt": prompt, "max_tokens": max_tokens, **GREEDY, **more}, timeout=120)
    assert status == 200, answer
    choice = answer["choices"][0]
    return choice["token_ids"], choice["logprobs"]["token_logprobs"]


# -------------------------------------------------------------------------------------------------------------- port
def test_busy_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused("--host", "127.0.0.1", "--port", port, words=[port])


def test_address_that_is_not_ours():
    # 192.0.2.0/24 is reserved for documentation (RFC 5737): no machine has it.
    refused("--host", "192.0.2.1", words=["192.0.2.1"])


def test_port_can_be_taken_again_at_once():
    with Server() as server:
        port = server.port
        server.get("/health")
        server.terminate()
        assert server.wait() == 0
    with Server(port=port) as again:
        assert again.get("/health")[0] == 200


# ------------------------------------------------------------------------------------------------------------ signals
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_idle_server_leaves_at_once(how):
    with Server() as server:
        begin = time.monotonic()
        server.terminate(how)
        assert server.wait() == 0
        assert time.monotonic() - begin < 3 * SCALE


def test_sigterm_drains():
    """Not ready at once, nothing new, the running stream to its end, then exit code 0."""
    with Server("--shutdown-timeout", 300) as server:  # a busy machine may need long for the stream
        stream = server.start_stream("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 1500, **GREEDY})
        events = sse_events(stream)
        next(events)
        server.terminate()
        deadline = time.monotonic() + 5 * SCALE
        not_ready = False
        while time.monotonic() < deadline and not not_ready and server.process.poll() is None:
            try:
                not_ready = server.get("/ready")[0] == 503
            except OSError:
                not_ready = True  # the listener may close at once: nobody can be sent here any more
        assert not_ready
        try:
            status, answer = server.post("/v1/completions", {"prompt": "late", "max_tokens": 1})
            assert status == 503, answer
        except OSError:
            pass
        rest = list(events)
        assert rest[-1] == b"[DONE]"
        finish = [c["finish_reason"] for e in rest[:-1] for c in json.loads(e)["choices"] if c.get("finish_reason")]
        assert finish == ["length"]
        assert server.wait() == 0


def test_second_signal_ends_it():
    with Server() as server:
        stream = server.start_stream("/v1/completions", {"prompt": "Once", "max_tokens": 8000, **GREEDY})
        next(sse_events(stream))
        server.terminate()
        time.sleep(0.2)
        if server.process.poll() is None:
            server.terminate()
        server.wait(10)


# -------------------------------------------------------------------------------------------------------------- batch
def test_eight_streams_equal_their_lone_runs(server):
    prompts = [f"Story {i}: once upon a time there was a {word}" for i, word in
               enumerate(["fox", "owl", "king and a queen", "boat", "very small mouse", "girl", "hill", "cat"])]
    alone = [complete(server, p) for p in prompts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda p: complete(server, p), prompts))
    assert together == alone


def test_seeded_requests_equal_their_lone_runs(server):
    def seeded(i):
        return complete(server, "Once upon a time", temperature=1.0, top_p=0.9, seed=i)
    alone = [seeded(i) for i in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(seeded, range(6))) == alone


def test_experts_on_a_second_device_give_the_same_bits(server):
    prompts = ["Hello!", "What is 27 + 45?", "Once upon a time " * 20]
    here = [complete(server, p) for p in prompts]
    with Server("--moe-device", "cpu:1") as other:
        assert [complete(other, p) for p in prompts] == here


def test_more_requests_than_sequences_are_queued():
    with Server("--max-num-seqs", "2") as small, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: complete(small, f"Number {i}", 8), range(8)))
    assert all(len(ids) == 8 for ids, _ in answers)


def test_small_budget_chunks_a_long_prompt(server):
    prompt = "The quick brown fox jumps over the lazy dog. " * 30
    with Server("--max-num-batched-tokens", "64") as small:
        assert complete(small, prompt) == complete(server, prompt)


# ------------------------------------------------------------------------------------------------- what clients do
def test_closed_connection_costs_nothing(server):
    before = complete(server, "Hello")
    for _ in range(10):
        stream = server.start_stream("/v1/completions", {"prompt": "Once", "max_tokens": 8000, **GREEDY})
        next(sse_events(stream))
        stream.close()
        stream.connection.close()
    assert complete(server, "Hello") == before


def test_closed_connections_give_back_threads_and_descriptors(server):
    def held():
        base = f"/proc/{server.process.pid}"
        return len(os.listdir(base + "/fd")), len(os.listdir(base + "/task"))

    complete(server, "warm", 4)
    time.sleep(0.5)
    before = held()
    for _ in range(30):
        stream = server.start_stream("/v1/completions", {"prompt": "Once", "max_tokens": 4000, **GREEDY})
        next(sse_events(stream))
        stream.close()
        stream.connection.close()
    deadline = time.monotonic() + 20 * SCALE
    while time.monotonic() < deadline and any(now > then for now, then in zip(held(), before)):
        time.sleep(0.2)
    descriptors, threads = held()
    assert descriptors <= before[0] and threads <= before[1]


def test_idle_costs_nothing(server):
    def ticks():
        fields = open(f"/proc/{server.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])  # utime, stime in clock ticks

    complete(server, "warm", 4)
    time.sleep(1)
    begin = ticks()
    time.sleep(4)
    used_s = (ticks() - begin) / os.sysconf("SC_CLK_TCK")
    assert used_s / 4 < 0.01, f"{used_s:.3f} s of processor time in 4 idle seconds"


def test_health_while_working(server):
    done = threading.Event()

    def work():
        complete(server, "Once", 600)
        done.set()
    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        assert server.get("/health")[0] == 200
        time.sleep(0.05)
    thread.join()
