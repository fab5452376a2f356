"""HTTP as bytes: order, cut messages, lengths and chunks, what smuggling needs. After each test a plain request is served."""
import json

import pytest
from raw_http import COMPLETIONS, LAST, ONE_TOKEN, Cut, RawClient, chunk, chunked, head, post, refusal

BODY = json.dumps(ONE_TOKEN).encode()


@pytest.fixture(autouse=True)
def still_serves(server):
    yield
    assert server.process.poll() is None, server.output()
    with RawClient(server.port) as client:
        client.send(post(COMPLETIONS, ONE_TOKEN))
        assert client.answer().status == 200


# --------------------------------------------------------------------------------------------------------- pipelining
def test_pipelined_requests_are_answered_in_order(server):
    methods = ["GET", "POST", "HEAD", "GET", "POST", "POST", "GET"]
    with RawClient(server.port) as client:
        client.send(head("GET", "/version") + post("/tokenize", {"prompt": "a b"}) + head("HEAD", "/version") + head("GET", "/no/such/path")
                    + chunked("/tokenize", chunk(b'{"prompt"'), chunk(b': "one"}'), LAST) + post(COMPLETIONS, b"{") + head("GET", "/v1/models"))
        answers = [client.answer(m) for m in methods]
        assert [a.status for a in answers] == [200, 200, 200, 404, 200, 400, 200]
        assert answers[2].headers["content-length"] == str(len(answers[0].body))
        assert "version" in answers[0].json() and answers[1].json()["count"] == len(answers[1].json()["tokens"])
        assert answers[6].json()["object"] == "list"


def test_pipelined_generations_are_answered_in_order(server):
    """Of different lengths, so that later ones would be ready first; streams among them."""
    with RawClient(server.port, timeout=60) as client:
        lengths = [40, 1, 20, 2, 10]
        client.send(b"".join(post(COMPLETIONS, {**ONE_TOKEN, "prompt": f"P{i}", "max_tokens": n, "echo": True, "ignore_eos": True, "stream": i == 2})
                             for i, n in enumerate(lengths)))
        for i, n in enumerate(lengths):
            answer = client.answer()
            assert answer.status == 200
            if i == 2:
                assert b'"P2"' in answer.body and answer.body.endswith(b"data: [DONE]\n\n")
            else:
                assert answer.json()["choices"][0]["text"].startswith(f"P{i}")
                assert answer.json()["usage"]["completion_tokens"] == n


def test_thousand_pipelined_requests(server):
    with RawClient(server.port) as client:
        client.send(head("GET", "/version") * 1000)
        assert all(client.answer().status == 200 for _ in range(1000))
        client.send(head("GET", "/version", "Connection: close") + head("GET", "/version"))
        assert client.answer().status == 200
        client.expect_end()  # what follows a last request is not answered


def test_nothing_is_read_after_a_malformed_request(server):
    with RawClient(server.port) as client:
        client.send(head("GET", "/version") + b"GET /version\r\n\r\n" + head("GET", "/version"))
        assert client.answer().status == 200
        assert client.answer().status == 400
        client.expect_end()


# ---------------------------------------------------------------------------------------------------------- cut messages
MESSAGES = {"length": post("/tokenize", {"prompt": "a"}), "chunked": chunked("/tokenize", chunk(b'{"prompt"', b";x=y"), chunk(b': "a"}'), b"0\r\nT: 1\r\n\r\n")}


@pytest.mark.parametrize("kind", MESSAGES)
def test_cut_anywhere_is_refused(server, kind):
    """The client shuts its sending side in mid-request: 400 (or nothing, where no request had begun), never an answer to half."""
    whole = MESSAGES[kind]
    for size in range(len(whole)):
        with RawClient(server.port) as client:
            client.send(whole[:size])
            client.shut_sending()
            if size == 0:
                client.expect_end()
                continue
            answer = client.answer()
            assert answer.status == 400, (whole[:size], answer)
            client.expect_end()


@pytest.mark.parametrize("kind", MESSAGES)
def test_arrives_in_two_pieces_cut_anywhere(server, kind):
    whole = MESSAGES[kind]
    with RawClient(server.port) as client:
        for size in range(1, len(whole)):
            client.send(whole[:size])
            client.send(whole[size:])
            assert client.answer().status == 200


def test_closed_in_mid_request(server):
    for size in range(0, len(MESSAGES["length"]), 3):
        with RawClient(server.port) as client:
            client.send(MESSAGES["length"][:size])


def test_half_closed_clients_get_their_answers(server):
    """All that was asked before the client shut its sending side."""
    with RawClient(server.port) as client:
        client.send(post("/tokenize", {"prompt": "a"}) + head("GET", "/version") + head("GET", "/v1/models"))
        client.shut_sending()
        assert client.answer().json()["count"] >= 1
        assert "version" in client.answer().json()
        assert client.answer().json()["object"] == "list"
        client.expect_end()


# ---------------------------------------------------------------------------------------------------------------- lengths
@pytest.mark.parametrize("value,status", [("-1", 400), ("+5", 400), ("0x5", 400), ("5 5", 400), ("5,5", 400), ("", 400), ("five", 400), ("5.0", 400),
                                          ("99999999999999999999999999", 413), ("18446744073709551615", 413), ("40000000", 413)])
def test_wrong_content_length(server, value, status):
    assert refusal(server.port, head("POST", COMPLETIONS, f"Content-Length: {value}") + BODY).status == status


@pytest.mark.parametrize("headers", [
    ["Content-Length: 5", "Content-Length: 5"], ["Content-Length: 5", "Content-Length: 6"], ["Content-Length: 5", "Transfer-Encoding: chunked"],
    ["Transfer-Encoding: chunked", "Content-Length: 0"], ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], ["Transfer-Encoding: chunked, chunked"],
    ["Transfer-Encoding:"], ["Transfer-Encoding : chunked"], ["Transfer-Encoding: chunked", " Content-Length: 5"], ["Transfer-Encoding:\x0bchunked"],
    ["Content-Length : 5"], ["Content-Length\t: 5"], ["\tContent-Length: 5"]], ids=str)
def test_contradicting_lengths(server, headers):
    hidden = head("GET", "/version")
    assert refusal(server.port, head("POST", COMPLETIONS, *headers) + b"0\r\n\r\n" + hidden).status == 400


@pytest.mark.parametrize("value", ["gzip", "gzip, chunked", "chunked, gzip", "identity", "xchunked", "chunked;q=1", '"chunked"'])
def test_other_transfer_encodings(server, value):
    assert refusal(server.port, head("POST", COMPLETIONS, f"Transfer-Encoding: {value}") + LAST).status in (400, 501)


def test_transfer_encoding_in_http_1_0(server):
    assert refusal(server.port, head("POST", COMPLETIONS, "Transfer-Encoding: chunked", version="HTTP/1.0") + LAST).status == 400


def test_transfer_encoding_in_any_case(server):
    with RawClient(server.port) as client:
        client.send(head("POST", COMPLETIONS, "tRANSFER-eNCODING: Chunked", "Content-Type: application/json") + chunk(BODY) + LAST)
        assert client.answer().status == 200


def test_body_of_a_get_is_not_the_next_request(server):
    with RawClient(server.port) as client:
        hidden = head("GET", "/no/such/path")
        client.send(head("GET", "/version", f"Content-Length: {len(hidden)}") + hidden + head("GET", "/version"))
        assert [client.answer().status, client.answer().status] == [200, 200]


# ----------------------------------------------------------------------------------------------------------------- chunks
@pytest.mark.parametrize("pieces", [[chunk(BODY)], [chunk(BODY[i:i + 1]) for i in range(len(BODY))], [b"%08X\r\n%s\r\n" % (len(BODY), BODY)],
                                    [chunk(BODY, b";name=value;other=\"a;b\"")]], ids=["one", "bytes", "zeros", "extensions"])
@pytest.mark.parametrize("end", [LAST, b"000\r\n\r\n", b"0;last\r\n\r\n", b"0\r\nTrailer: 1\r\nOther: 2\r\n\r\n"], ids=["plain", "zeros", "extension", "trailers"])
def test_chunked_bodies(server, pieces, end):
    with RawClient(server.port) as client:
        client.send(chunked(COMPLETIONS, *pieces, end) + head("GET", "/version"))
        assert client.answer().status == 200
        assert "version" in client.answer().json()


@pytest.mark.parametrize("data", [b"-5\r\nhello\r\n", b"+5\r\nhello\r\n", b"0x5\r\nhello\r\n", b" 5\r\nhello\r\n", b"5 \r\nhello\r\n", b"\r\n", b";x\r\n", b"g\r\n",
                                  b"5\nhello\n0\n\n", b"5\rhello", b"5\r\nhello0\r\n\r\n", b"4\r\nhello\r\n", b"5\r\nhello\n", b"5\x00\r\nhello\r\n",
                                  b"5;a\x00b\r\nhello\r\n", b"0\r\n folded\r\n\r\n", b"0\r\nno colon\r\n\r\n", b"0\r\nBad\x01: x\r\n\r\n", b"0\r\nA: b\n\n"], ids=str)
def test_malformed_chunks(server, data):
    assert refusal(server.port, chunked(COMPLETIONS, data)).status == 400


@pytest.mark.parametrize("size", [b"FFFFFFFF", b"7FFFFFFFFFFFFFFF", b"FFFFFFFFFFFFFFFF", b"10000000000000000", b"F" * 200, b"2000001"], ids=str)
def test_chunk_sizes_that_overflow(server, size):
    assert refusal(server.port, chunked(COMPLETIONS, size + b"\r\nhello\r\n")).status == 413


def test_sum_of_chunks_over_the_limit(server):
    """33 MB in chunks that are each allowed."""
    piece = chunk(b" " * (1 << 20))
    with RawClient(server.port) as client:
        for data in [chunked(COMPLETIONS), *[piece] * 33]:
            if not client.send(data):
                break
        assert client.answer().status == 413
        client.expect_end()


def test_two_million_tiny_chunks(server):
    with RawClient(server.port, timeout=60) as client:
        client.send(chunked(COMPLETIONS, chunk(BODY)))
        for _ in range(200):
            if not client.send(b"1\r\n \r\n" * 10_000):
                break
        assert client.answer().status == 413
        client.expect_end()


@pytest.mark.parametrize("data,status", [(b"5;" + b"x" * 1000 + b"\r\nhello\r\n", 400), (b"1;x=" + b"y" * 200 + b"\r\n \r\n", 400),
                                         (b"0\r\n" + b"T: x\r\n" * 1000 + b"\r\n", 431), (b"0\r\nT: " + b"x" * 100_000 + b"\r\n\r\n", 431)],
                         ids=["one long extension", "many extensions", "many trailers", "long trailer"])
def test_floods_inside_chunks(server, data, status):
    with RawClient(server.port) as client:
        client.send(chunked(COMPLETIONS, *[data] * (200 if data.startswith(b"1;") else 1)))
        assert client.answer().status == status
        client.expect_end()


def test_trailers_change_nothing(server):
    """A trailer with a name that matters in the head is read over."""
    with RawClient(server.port) as client:
        client.send(chunked("/tokenize", chunk(b'{"prompt": "a"}'), b"0\r\nContent-Length: 999\r\nHost: evil\r\nConnection: close\r\n\r\n") + head("GET", "/version"))
        assert client.answer().status == 200
        assert client.answer().status == 200
        with pytest.raises((Cut, TimeoutError)):
            client.socket.settimeout(0.2)
            client.answer()
        assert not client.ended
