"""Connections over time: slow clients, many of them, what they leave behind."""
import os
import socket
import threading
import time

import pytest
from program import SCALE, Server, sse_events
from raw_http import COMPLETIONS, ONE_TOKEN, Cut, RawClient, head, post


@pytest.fixture(scope="module")
def slow_clients(server):
    """Begun first and looked at last: the limits are 30 s for headers, 60 s for a body."""
    kinds = {"headers": b"GET /version HTTP/1.1\r\nHost: test\r\nX: ",
             "request line": b"GET /ver",
             "body": head("POST", COMPLETIONS, "Content-Length: 100000"),
             "chunks": head("POST", COMPLETIONS, "Transfer-Encoding: chunked"),
             "silent body": head("POST", COMPLETIONS, "Content-Length: 10")}
    drips = {"headers": b"y", "request line": b"s", "body": b" ", "chunks": b"1\r\n \r\n", "silent body": b""}
    found = {}

    def drip(kind):
        with RawClient(server.port, timeout=100) as client:
            begin = time.monotonic()
            client.send(kinds[kind])
            client.socket.settimeout(0.5)
            while time.monotonic() - begin < 100 * SCALE:
                try:
                    found[kind] = (client.answer().status, time.monotonic() - begin)
                    client.socket.settimeout(10 * SCALE)
                    client.expect_end()
                    return
                except TimeoutError:
                    client.send(drips[kind])
                except Cut as cut:
                    found[kind] = (str(cut), 0)
                    return

    threads = [threading.Thread(target=drip, args=(kind,), daemon=True) for kind in kinds]
    for thread in threads:
        thread.start()
    return threads, found, list(kinds)


def open_descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def test_slow_clients_hold_nobody_up(server, slow_clients):
    with RawClient(server.port) as client:
        for _ in range(20):
            client.send(post(COMPLETIONS, ONE_TOKEN))
            assert client.answer().status == 200


def test_one_connection_serves_a_thousand_requests(server):
    with RawClient(server.port) as client:
        for i in range(1000):
            client.send(post("/tokenize", {"prompt": f"{i}"}))
            assert client.answer().status == 200


def test_a_byte_at_a_time(server):
    with RawClient(server.port) as client:
        for byte in post("/tokenize", {"prompt": "a"}):
            client.send(bytes([byte]))
        assert client.answer().status == 200


def test_many_connections_that_say_nothing_are_served_around(server):
    clients = [RawClient(server.port) for _ in range(500)]
    try:
        for i, client in enumerate(clients[::2]):
            client.send(head("GET", "/version")[:i % 40])
        for client in clients[1::50]:
            client.send(head("GET", "/version"))
            assert client.answer().status == 200
    finally:
        for client in clients:
            client.socket.close()


def test_a_storm_of_connections_leaves_nothing(server):
    def settled():
        deadline = time.monotonic() + 20 * SCALE
        count = open_descriptors(server)
        while time.monotonic() < deadline:
            time.sleep(0.3)
            now = open_descriptors(server)
            if now == count:
                return now
            count = now
        return count

    before = settled()
    for i in range(300):
        client = RawClient(server.port)
        if i % 3 == 0:
            client.send(post(COMPLETIONS, {**ONE_TOKEN, "max_tokens": 500, "ignore_eos": True, "stream": i % 2 == 0}))
        elif i % 3 == 1:
            client.send(head("POST", COMPLETIONS, "Content-Length: 1000") + b"{")
        if i % 2 == 0:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # reset
        client.socket.close()
    deadline = time.monotonic() + 20 * SCALE
    while open_descriptors(server) > before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert open_descriptors(server) <= before


def test_half_closed_stream_frees_the_engine():
    """A client that shuts its sending side looks gone: its stream ends, and the one place in the batch is free at once."""
    with Server("--max-num-seqs", "1") as small:
        with RawClient(small.port) as client:
            client.send(post(COMPLETIONS, {**ONE_TOKEN, "max_tokens": 8000, "ignore_eos": True, "stream": True}))
            client._until(b"data: ")
            client.shut_sending()
            status, _ = small.post(COMPLETIONS, ONE_TOKEN, timeout=10)
            assert status == 200
            assert b"[DONE]" not in client.rest()


def test_a_client_that_does_not_read_holds_nobody_up(server):
    with RawClient(server.port) as lazy:
        lazy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.send(post(COMPLETIONS, {**ONE_TOKEN, "max_tokens": 4000, "ignore_eos": True, "stream": True, "logprobs": 5}))
        assert list(sse_events(server.start_stream(COMPLETIONS, {**ONE_TOKEN, "max_tokens": 30})))[-1] == b"[DONE]"


def test_slow_clients_are_told_408(server, slow_clients):
    threads, found, kinds = slow_clients
    for thread in threads:
        thread.join(120 * SCALE)
    assert {kind: status for kind, (status, _) in found.items()} == dict.fromkeys(kinds, 408), found
