"""Runs the program under test: $TANDEM_BINARY, or build/release/tandem."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BINARY = Path(os.environ.get("TANDEM_BINARY", ROOT / "build/release/tandem"))
BUNDLED = ROOT / "models/tandem-tiny-v3"
# Sanitizer builds are slower: TANDEM_TIME_SCALE=5.
SCALE = float(os.environ.get("TANDEM_TIME_SCALE", "1"))
# What only a crash or an uncaught exception prints.
CRASH = re.compile(r"terminate called|Sanitizer|runtime error:|CHECK failed|Segmentation|core dumped|std::\w+_error|what\(\):")


def run(*arguments, timeout=60):
    """The finished process, with text in stdout and stderr."""
    return subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, timeout=timeout * SCALE,
                          stdin=subprocess.DEVNULL)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def refused(*arguments, words=(), timeout=60):
    """Runs `tandem serve ...`, which must give up: exit code 1 and one line that names what is wrong."""
    port = [] if "--port" in arguments else ["--port", free_port()]
    done = run("serve", *arguments, *port, timeout=timeout)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    told = f"code {done.returncode}, stderr:\n{done.stderr[-3000:]}"
    assert not CRASH.search(done.stderr), told
    assert done.returncode == 1, told
    assert lines, "nothing on standard error"
    for word in words:
        assert str(word).lower() in lines[-1].lower(), f"'{word}' is not in the last line; {told}"
    assert len(lines[-1]) < 600, told
    others = [line for line in lines[:-1] if re.search(r"\berror\b", line, re.I)]
    assert not others, f"more than one complaint; {told}"
    return lines[-1]


class Server:
    """`tandem serve` on a free loopback port, for use in a with statement; ready when the block begins."""

    program = []  # what starts the binary: a shell with its own limits

    def __init__(self, *arguments, model=None, port=None, ready_seconds=60):
        self.port = port or free_port()
        self.arguments = ["serve", *([model] if model else []), "--host", "127.0.0.1", "--port", self.port, *arguments]
        self.ready_seconds = ready_seconds
        self.log = tempfile.TemporaryFile("w+")

    def __enter__(self):
        begin = time.monotonic()
        self.process = subprocess.Popen([*self.program, BINARY, *map(str, self.arguments)], stdout=self.log, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL)
        while True:
            if self.process.poll() is not None:
                raise AssertionError(f"the server left with {self.process.returncode}:\n{self.output()}")
            try:
                if self.get("/ready", timeout=5)[0] == 200:
                    break
            except OSError:
                pass
            assert time.monotonic() - begin < self.ready_seconds * SCALE, f"not ready:\n{self.output()}"
            time.sleep(0.005)
        self.ready_after_s = time.monotonic() - begin
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()

    def output(self):
        """What the program has printed so far, standard output and error together."""
        self.log.flush()
        return os.pread(self.log.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def connect(self, timeout=30):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SCALE)

    def get(self, path, timeout=30):
        connection = self.connect(timeout)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def post(self, path, body, timeout=60):
        connection = self.connect(timeout)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def start_stream(self, path, body, timeout=60):
        """The open answer of a streamed request; its connection is kept in `.connection`."""
        connection = self.connect(timeout)
        connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.connection = connection
        return answer

    def terminate(self, how=signal.SIGTERM):
        self.process.send_signal(how)

    def wait(self, seconds=60):
        return self.process.wait(seconds * SCALE)


def sse_events(answer):
    """Yields the data of each event, as bytes, until the stream ends."""
    for line in answer:
        line = line.strip()
        if line.startswith(b"data:"):
            yield line[5:].strip()
