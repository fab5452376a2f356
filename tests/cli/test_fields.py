"""Fields of vLLM's own, by what they do to the running program's answers."""
import json

import pytest
from program import Server, sse_events


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


BODY = {"prompt": "Once upon a time", "max_tokens": 16, "ignore_eos": True, "temperature": 0, "return_token_ids": True}


def test_repetition_ends_a_choice(server):
    word = server.post("/tokenize", {"prompt": "the", "add_special_tokens": False})[1]["tokens"][0]
    body = {**BODY, "max_tokens": 60, "allowed_token_ids": [word], "repetition_detection": {"max_pattern_size": 4, "min_count": 5}}
    choice = server.post("/v1/completions", body)[1]["choices"][0]
    assert choice["finish_reason"] == "repetition" and choice["token_ids"] == [word] * 5
    later = server.post("/v1/completions", {**body, "min_tokens": 9})[1]["choices"][0]
    assert later["finish_reason"] == "repetition" and len(later["token_ids"]) == 9
    assert 'finished_reason="repetition",model_name="tandem-tiny-v3"} 2' in server.get("/metrics")[1].decode()


def test_truncation_keeps_the_side_that_is_asked_for(server):
    ids = list(range(10, 30))
    for side, kept in (("left", ids[-5:]), ("right", ids[:5])):
        body = {**BODY, "prompt": ids, "truncate_prompt_tokens": 5, "truncation_side": side}
        assert server.post("/v1/completions", body)[1]["choices"][0]["prompt_token_ids"] == kept


@pytest.mark.parametrize("interval", [1, 4, 100])
def test_stream_interval(server, interval):
    whole = server.post("/v1/completions", BODY)[1]["choices"][0]
    answer = server.start_stream("/v1/completions", {**BODY, "stream_interval": interval})
    chunks = [json.loads(event)["choices"][0] for event in sse_events(answer) if event != b"[DONE]"]
    sizes = [len(c["token_ids"]) for c in chunks if c.get("token_ids")]
    assert "".join(c["text"] for c in chunks) == whole["text"]
    assert sum((c.get("token_ids") or [] for c in chunks), []) == whole["token_ids"]
    assert sizes == {1: [1] * 16, 4: [1, 4, 4, 4, 3], 100: [1, 15]}[interval]
    assert chunks[-1]["finish_reason"] == "length"
