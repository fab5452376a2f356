"""A thousand open streams that wait and two hundred that run, from a shell that allows 256 open files."""
import json
import os
import resource
import selectors
import time

import pytest
from program import SCALE, Server
from raw_http import COMPLETIONS, RawClient, head, post

ACTIVE, IDLE, TOKENS = 200, 1000, 40


class FewFiles(Server):
    """Started with a soft limit of 256 open files, as some systems have it."""

    def __enter__(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        try:
            return super().__enter__()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def read_streams(clients, seconds):
    """Each client's body until its stream has ended; all at once, on this thread."""
    selector = selectors.DefaultSelector()
    for i, client in enumerate(clients):
        selector.register(client.socket, selectors.EVENT_READ, i)
    deadline = time.monotonic() + seconds
    left = len(clients)
    while left:
        assert time.monotonic() < deadline, f"{left} streams have not ended"
        for key, _ in selector.select(1):
            client = clients[key.data]
            data = client.socket.recv(65536)
            assert data, f"stream {key.data} was cut: {client.buffer[-300:]}"
            client.buffer += data
            if client.buffer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"):
                selector.unregister(client.socket)
                left -= 1
    return [client.answer() for client in clients]


@pytest.fixture(scope="module", autouse=True)
def enough_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip(f"the hard limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_thousand_waiting_and_two_hundred_running_streams(capsys):
    body = {"temperature": 0, "max_tokens": TOKENS, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
    with FewFiles("--max-num-seqs", ACTIVE) as server:
        before = open_descriptors(server)
        active = [RawClient(server.port, timeout=120) for _ in range(ACTIVE)]
        idle = [RawClient(server.port, timeout=120) for _ in range(IDLE)]
        # Those that wait get the head of their stream at once, though the model cannot take them.
        begin = time.monotonic()
        for i, client in enumerate(active):
            client.send(post(COMPLETIONS, {**body, "prompt": f"{i}"}))
        for client in idle:
            client.send(post(COMPLETIONS, {**body, "prompt": "x", "max_tokens": 400}))
        for client in idle:
            assert client._until(b"\r\n\r\n").startswith(b"HTTP/1.1 200")
        assert open_descriptors(server) >= ACTIVE + IDLE
        assert server.get("/health", timeout=60)[0] == 200
        answers = read_streams(active, 300 * SCALE)
        spent = time.monotonic() - begin
        for answer in answers:
            events = [json.loads(line[6:]) for line in answer.body.decode().split("\n\n") if line.startswith("data: {")]
            assert events[-1]["usage"]["completion_tokens"] == TOKENS
            assert [c["finish_reason"] for e in events for c in e["choices"] if c["finish_reason"]] == ["length"]
        memory = next(line for line in open(f"/proc/{server.process.pid}/status") if line.startswith("VmRSS"))
        with capsys.disabled():
            print(f"\n{ACTIVE} streams of {TOKENS} tokens beside {IDLE} waiting ones: {spent:.1f} s, {memory.split()[1]} kB resident")
        for client in active + idle:
            client.socket.close()
        deadline = time.monotonic() + 60 * SCALE
        while open_descriptors(server) > before and time.monotonic() < deadline:
            time.sleep(0.2)
        assert open_descriptors(server) <= before
        status, answer = server.post(COMPLETIONS, {"prompt": "x", "max_tokens": 1})
        assert status == 200, answer


class Narrow(Server):
    """Started where no more than 300 open files are allowed."""

    program = ["/bin/bash", "-c", 'ulimit -n 300; exec "$0" "$@"']


def test_connections_beyond_the_file_limit_are_told():
    """The program serves fewer connections and says so; the next ones get 503, and none is lost."""
    with Narrow() as server:
        assert "at most 172 connections" in server.output()
        clients = [RawClient(server.port) for _ in range(200)]
        answered = []
        for client in clients:
            client.send(head("GET", "/version"))
            answered.append(client.answer().status)
        assert answered.count(200) == 172 and answered.count(503) == 28
        for client in clients:
            client.socket.close()
        deadline = time.monotonic() + 20 * SCALE
        while open_descriptors(server) > 100 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert server.get("/version")[0] == 200
