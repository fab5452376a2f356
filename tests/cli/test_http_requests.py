"""HTTP as bytes: request lines, targets, headers, methods, expectations, floods. After each test a plain request is served."""
import json

import pytest
from raw_http import COMPLETIONS, ONE_TOKEN, RawClient, head, post, refusal


@pytest.fixture(autouse=True)
def still_serves(server):
    yield
    assert server.process.poll() is None, server.output()
    with RawClient(server.port) as client:
        client.send(head("GET", "/version"))
        assert client.answer().status == 200


# ------------------------------------------------------------------------------------------------------------ request line
@pytest.mark.parametrize("line,status", [
    (b"GET /version", 400), (b"GET", 400), (b"GET  /version HTTP/1.1", 400), (b"GET /version  HTTP/1.1", 400), (b" GET /version HTTP/1.1", 400),
    (b"GET /version HTTP/1.1 ", 400), (b"GET\t/version\tHTTP/1.1", 400), (b"GET /version x HTTP/1.1", 400), (b"GET /version http/1.1", 400),
    (b"GET /version HTTP/1", 400), (b"GET /version HTTP/1.10", 400), (b"GET /version HTTP/11", 400), (b"GET /version HTTP/1.1.1", 400),
    (b"GET /version HTTP/-1.1", 400), (b"GET /version HTTPS/1.1", 400), (b"GET /version HTTP/2.0", 505), (b"GET /version HTTP/3.0", 505),
    (b"GET /version HTTP/0.9", 505), (b"GET /version HTTP/1.2", 505), (b"G\x00T /version HTTP/1.1", 400), (b"GET /ver\x00sion HTTP/1.1", 400),
    (b"GET /version HTTP/1.1\x00", 400), (b"G\xc3\xa4T /version HTTP/1.1", 400), (b"GET /\xc3\xa4 HTTP/1.1", 400), (b"G(T /version HTTP/1.1", 400),
    (b"A" * 100 + b" /version HTTP/1.1", 400), (b"{\"prompt\": 1}", 400), (b"GET /version\x0bHTTP/1.1", 400)], ids=str)
def test_malformed_request_lines(server, line, status):
    assert refusal(server.port, line + b"\r\nHost: test\r\n\r\n").status == status


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x00" * 100,
                                  b"SSH-2.0-OpenSSH_9.2\r\n", b"GET / HTTP/1.1\nHost: test\n\n", b"GET / HTTP/1.1\rHost: test\r\r", b"\r\n" * 100,
                                  b"*1\r\n$4\r\nPING\r\n"], ids=["TLS", "HTTP/2", "zeros", "SSH", "line feeds", "carriage returns", "blank lines", "RESP"])
def test_other_protocols(server, data):
    assert refusal(server.port, data).status in (400, 505)


def test_one_blank_line_before_a_request_is_forgiven(server):
    """RFC 9112, section 2.2."""
    with RawClient(server.port) as client:
        client.send(b"\r\n" + head("GET", "/version") + b"\r\n" + head("GET", "/version"))
        assert client.answer().status == 200 and client.answer().status == 200


# ----------------------------------------------------------------------------------------------------------------- targets
@pytest.mark.parametrize("target", ["/a/../version", "/./version", "//version", "/version//", "/%2e%2e/version", "/v1%2fmodels", "/v1%5cmodels", "/v1\\models", "/%00", "/version%00",
                                    "/%", "/%4", "/%zz", "/%ff", "/%c0%af", "/version#x", "version", "?x", "*", "ftp://test/version", "http://", "http:///version",
                                    "http://user@test/version", "http://other/version", "http://test:81/version", "javascript:alert(1)", "/\x7f", "/%0d%0aX: 1"], ids=str)
def test_targets_that_are_refused(server, target):
    assert refusal(server.port, head("GET", target)).status == 400


@pytest.mark.parametrize("target", ["/version/", "/VERSION", "/version/x", "/v1", "/", "/etc/passwd", "/%76ersionx", "/version;x=1"])
def test_targets_that_do_not_exist(server, target):
    with RawClient(server.port) as client:
        client.send(head("GET", target) + head("GET", "/version"))
        answer = client.answer()
        assert answer.status == 404 and answer.json()["error"]["code"] == 404
        assert client.answer().status == 200


@pytest.mark.parametrize("target", ["http://test/version", "HTTP://TEST/version", "https://test/version", "/version?a=b&c=%2F..", "/v%65rsion", "/version?"])
def test_targets_that_are_served(server, target):
    with RawClient(server.port) as client:
        client.send(head("GET", target))
        answer = client.answer()
        assert answer.status == 200 and "version" in answer.json()


def test_connect_is_refused(server):
    assert refusal(server.port, head("CONNECT", "test:443")).status == 400


@pytest.mark.parametrize("size,status", [(8_000, 404), (8_300, 414), (100_000, 414), (2_000_000, 414)])
@pytest.mark.parametrize("kind", ["path", "query", "absolute"])
def test_long_targets(server, size, status, kind):
    target = {"path": "/" + "a" * size, "query": "/no/such?" + "a" * size, "absolute": "http://test/" + "a" * size}[kind]
    with RawClient(server.port) as client:
        client.send(head("GET", target))
        assert client.answer().status == status
        if status == 414:
            client.expect_end()


# ----------------------------------------------------------------------------------------------------------------- headers
@pytest.mark.parametrize("line", [b" folded", b"\tfolded", b"no colon", b": no name", b"Na me: x", b"Name : x", b"N\x00me: x", b"Name: a\x00b", b"Name: a\x01b", b"Name: a\x7fb",
                                  b"N\xc3\xa4me: x", b"Name: x\nOther: y", b"Name: x\rOther: y", b"\"Name\": x", b"Na(me: x", b"\x00"], ids=str)
def test_malformed_headers(server, line):
    assert refusal(server.port, b"GET /version HTTP/1.1\r\nHost: test\r\nX: y\r\n" + line + b"\r\n\r\n").status == 400


@pytest.mark.parametrize("line", [b"Name:x", b"Name:   x   ", b"Name:\t x\t", b"Name:", b"Name: \xff\xfe\x80", b"Name: a\tb", b"!#$%&'*+-.^_`|~: x"], ids=str)
def test_unusual_headers_that_are_allowed(server, line):
    with RawClient(server.port) as client:
        client.send(b"GET /version HTTP/1.1\r\nHost: test\r\n" + line + b"\r\n\r\n")
        assert client.answer().status == 200


@pytest.mark.parametrize("host", [None, "Host:", "Host: a b", "Host: a/b", "Host: a@b", "Host: a,b", "Host: a:b", "Host: a:", "Host: a:999999", "Host: [::1", "Host: \xe4",
                                  "Host: a\r\nHost: a", "Host: a\r\nHost: b"], ids=str)
def test_wrong_hosts(server, host):
    assert refusal(server.port, head("GET", "/version", host=host)).status == 400


@pytest.mark.parametrize("host", ["Host: localhost", "Host: 127.0.0.1:8000", "Host: [::1]:8000", "Host: a-b_c.example", "host:x"])
def test_right_hosts(server, host):
    with RawClient(server.port) as client:
        client.send(head("GET", "/version", host=host))
        assert client.answer().status == 200


def test_http_1_0_needs_no_host_and_ends(server):
    with RawClient(server.port) as client:
        client.send(b"GET /version HTTP/1.0\r\n\r\n")
        assert client.answer().status == 200
        client.expect_end()


def test_stream_in_http_1_0_has_no_chunks(server):
    body = json.dumps({**ONE_TOKEN, "stream": True}).encode()
    with RawClient(server.port) as client:
        client.send(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        text = client.rest()
        top, stream = text.split(b"\r\n\r\n", 1)
        assert b"chunked" not in top.lower() and stream.startswith(b"data: {") and stream.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("data", [b"X: y\r\n" * 10_000, b"".join(b"X%d: y\r\n" % i for i in range(10_000)), b"X: " + b"y" * 70_000 + b"\r\n", b"X" * 70_000 + b": y\r\n",
                                  b"Cookie: " + b"a=b; " * 20_000 + b"\r\n", b":" * 70_000, b"X: y\r\n" * 300],
                         ids=["10000 equal", "10000 different", "long value", "long name", "cookie", "no end", "300"])
def test_header_floods(server, data):
    with RawClient(server.port) as client:
        client.send(b"GET /version HTTP/1.1\r\nHost: test\r\n" + data)
        assert client.answer().status == 431
        client.expect_end()


def test_endless_headers_are_refused_while_they_come(server):
    """The answer comes though the client never stops sending."""
    with RawClient(server.port) as client:
        client.send(b"GET /version HTTP/1.1\r\nHost: test\r\n")
        sent = 0
        while client.send(b"X: " + b"y" * 1000 + b"\r\n") and sent < 100_000_000:
            sent += 1000
            if sent % 1_000_000 == 0:
                client.socket.setblocking(False)
                try:
                    if client.socket.recv(1, 2):  # MSG_PEEK
                        break
                except BlockingIOError:
                    pass
                finally:
                    client.socket.settimeout(20)
        assert sent < 100_000_000
        assert client.answer().status == 431


def test_headers_within_the_limits(server):
    with RawClient(server.port) as client:
        client.send(head("GET", "/version", *[f"X{i}: {'y' * 200}" for i in range(250)]) + head("GET", "/version", "X: " + "y" * 60_000))
        assert client.answer().status == 200 and client.answer().status == 200


# ----------------------------------------------------------------------------------------------------------------- methods
@pytest.mark.parametrize("path,allowed", [("/version", "GET"), ("/health", "GET"), ("/v1/models", "GET"), (COMPLETIONS, "POST"), ("/v1/chat/completions", "POST"), ("/tokenize", "POST")])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "get", "X-ANY"])
def test_wrong_methods_name_the_right_ones(server, path, allowed, method):
    if method == allowed:
        pytest.skip("the right one")
    with RawClient(server.port) as client:
        client.send(head(method, path, "Content-Length: 2") + b"{}" + head("GET", "/version"))
        answer = client.answer(method)
        assert answer.status == 405 and allowed in [a.strip() for a in answer.headers["allow"].split(",")], answer
        assert answer.json()["error"]["code"] == 405
        assert client.answer().status == 200  # the body was read over


@pytest.mark.parametrize("path", ["/version", "/health", "/ready", "/v1/models", "/v1/models/none", "/no/such/path"])
def test_head_is_get_without_the_body(server, path):
    with RawClient(server.port) as client:
        client.send(head("GET", path) + head("HEAD", path) + head("GET", "/version"))
        get, without = client.answer(), client.answer("HEAD")
        assert (get.status, get.headers.get("content-length"), get.headers.get("content-type")) == \
            (without.status, without.headers.get("content-length"), without.headers.get("content-type"))
        assert "version" in client.answer().json()


@pytest.mark.parametrize("path", ["*", "/version", COMPLETIONS, "/no/such/path"])
def test_options_keeps_the_connection(server, path):
    with RawClient(server.port) as client:
        client.send(head("OPTIONS", path) + head("GET", "/version"))
        assert client.answer().status in (200, 204, 404, 405)
        assert "version" in client.answer().json()


# ------------------------------------------------------------------------------------------------------------ expectations
def test_continue_is_sent_before_the_body(server):
    body = json.dumps({**ONE_TOKEN, "prompt": "word " * 10}).encode() + b" " * (2 << 20)
    with RawClient(server.port) as client:
        for _ in range(2):
            client.send(head("POST", COMPLETIONS, f"Content-Length: {len(body)}", "Expect: 100-continue", "Content-Type: application/json"))
            assert client.answer().status == 100
            client.send(body)
            assert client.answer().status == 200


@pytest.mark.parametrize("method,path,length,status", [("POST", "/no/such/path", "5", 404), ("PUT", COMPLETIONS, "5", 405), ("POST", COMPLETIONS, "99999999999", 413),
                                                       ("POST", COMPLETIONS, "x", 400)])
def test_no_continue_for_what_is_refused(server, method, path, length, status):
    with RawClient(server.port) as client:
        client.send(head(method, path, f"Content-Length: {length}", "Expect: 100-continue"))
        assert client.answer().status == status  # at once: no body was sent
        client.expect_end()


def test_continue_with_the_body_at_once_and_without_any(server):
    with RawClient(server.port) as client:
        client.send(post(COMPLETIONS, ONE_TOKEN, "Expect: 100-continue"))
        answer = client.answer()
        assert (client.answer() if answer.status == 100 else answer).status == 200
        client.send(head("GET", "/version", "Expect: 100-continue"))
        assert client.answer().status == 200


def test_other_expectations(server):
    with RawClient(server.port) as client:
        client.send(head("POST", COMPLETIONS, "Content-Length: 2", "Expect: miracles") + b"{}")
        assert client.answer().status == 417


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate, gzip", "zstd"])
def test_compressed_bodies_are_refused(server, coding):
    with RawClient(server.port) as client:
        client.send(post(COMPLETIONS, b"\x1f\x8b" + bytes(20), f"Content-Encoding: {coding}") + head("GET", "/version"))
        assert client.answer().status == 415
        assert client.answer().status == 200


def test_request_ids_cannot_forge_headers(server):
    with RawClient(server.port) as client:
        client.send(head("GET", "/version", "X-Request-Id: a\tb", "Origin: http://x\t\"<>") + head("GET", "/version", "X-Request-Id: " + "a" * 5000))
        for _ in range(2):
            answer = client.answer()
            assert answer.status == 200 and "\t" not in "".join(answer.headers.values())
