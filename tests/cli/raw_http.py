"""A socket that sends what no proper client sends, and reads answers strictly."""
import json
import socket
from dataclasses import dataclass

from program import SCALE


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


class Cut(Exception):
    """The connection ended where an answer was expected."""


class RawClient:
    """One connection to 127.0.0.1:port, for use in a with statement."""

    def __init__(self, port, timeout=20):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout * SCALE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.ended = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        """False when the server has cut the connection."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def shut_sending(self):
        self.socket.shutdown(socket.SHUT_WR)

    def _more(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.ended = True
            raise Cut(f"after {self.buffer[:200]!r}")
        self.buffer += data

    def _until(self, mark):
        while mark not in self.buffer:
            self._more()
        taken, self.buffer = self.buffer.split(mark, 1)
        return taken

    def _exactly(self, size):
        while len(self.buffer) < size:
            self._more()
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def answer(self, method="GET"):
        """The next whole answer, informational ones included."""
        lines = self._until(b"\r\n\r\n").decode("ascii").split("\r\n")
        version, status, _ = lines[0].split(" ", 2)
        assert version == "HTTP/1.1", lines[0]
        pairs = [line.split(": ", 1) for line in lines[1:]]
        headers = dict(pairs)
        assert len(headers) == len(pairs), f"a header twice: {lines}"
        status = int(status)
        if method == "HEAD" or status < 200 or status in (204, 304):
            return Answer(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            assert "content-length" not in headers
            return Answer(status, headers, self._chunks())
        return Answer(status, headers, self._exactly(int(headers["content-length"])))

    def _chunks(self):
        body = b""
        while size := int(self._until(b"\r\n"), 16):
            body += self._exactly(size)
            assert self._exactly(2) == b"\r\n"
        assert self._exactly(2) == b"\r\n"
        return body

    def rest(self):
        """Everything until the server ends the connection."""
        try:
            while True:
                self._more()
        except Cut:
            pass
        taken, self.buffer = self.buffer, b""
        return taken

    def expect_end(self):
        """Nothing more comes, and the server closes."""
        left = self.rest()
        assert left == b"", f"unexpected: {left[:300]!r}"


def head(method, path, *headers, version="HTTP/1.1", host="Host: test"):
    lines = [f"{method} {path} {version}", *([host] if host else []), *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def post(path, body, *headers):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return head("POST", path, f"Content-Length: {len(body)}", "Content-Type: application/json", *headers) + body


def chunked(path, *pieces, headers=()):
    """`pieces` stand in the body as they are."""
    return head("POST", path, "Transfer-Encoding: chunked", "Content-Type: application/json", *headers) + b"".join(pieces)


def chunk(data, extension=b""):
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data)


LAST = b"0\r\n\r\n"
COMPLETIONS = "/v1/completions"
ONE_TOKEN = {"prompt": "Hi", "max_tokens": 1, "temperature": 0}


def refusal(port, data, method="GET", continue_sending=False):
    """Sends what must be refused: one answer in the error shape, then the end of the connection. The answer."""
    with RawClient(port) as client:
        client.send(data)
        answer = client.answer(method)
        assert 400 <= answer.status < 600, answer
        if method != "HEAD":
            error = answer.json()["error"]
            assert error["message"] and error["code"] == answer.status, error
        assert answer.headers.get("connection") == "close", answer.headers
        client.expect_end()
        return answer
