"""Requests that contradict themselves or ask for too much at once: refused with 400, and the next one is served."""
import json

import pytest
from program import sse_events

END = 1  # the bundled model's end-of-sentence token


@pytest.mark.parametrize("rules", [{"allowed_token_ids": [END], "min_tokens": 2}, {"allowed_token_ids": [67], "bad_words": ["a"]}], ids=str)
def test_rules_that_leave_no_token(server, rules):
    body = {"prompt": "Hi", "max_tokens": 3, **rules}
    status, answer = server.post("/v1/completions", body)
    assert status == 400, answer
    assert "no token" in answer["error"]["message"]
    events = list(sse_events(server.start_stream("/v1/completions", body)))
    assert json.loads(events[0])["error"]["code"] == 400
    assert events[-1] == b"[DONE]"
    assert server.post("/v1/completions", {"prompt": "Hi", "max_tokens": 1})[0] == 200


@pytest.mark.parametrize("body", [{"prompt": ["a"] * 1024, "n": 128}, {"prompt": [[5] * 8000] * 1024, "prompt_logprobs": 20},
                                  {"prompt": ["a"] * 512, "max_tokens": 8000, "logprobs": 20},
                                  {"prompt": ["a"] * 1024, "bad_words": ["word " * 100] * 1024}],
                         ids=["n times prompts", "prompt logprobs", "logprobs", "bad words"])
def test_calls_that_would_fill_the_memory(server, body):
    status, answer = server.post("/v1/completions", {"max_tokens": 1, **body})
    assert status == 400, str(answer)[:500]


@pytest.mark.parametrize("content", ["e", "sentence", "of", "\uff5c"])
def test_continued_message_stays_open(server, content):
    """The end marker spells these, too: the cut must come after the message, not inside the marker."""
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": content}]
    status, answer = server.post("/v1/chat/completions", {"messages": messages, "continue_final_message": True, "max_tokens": 1,
                                                          "return_token_ids": True})
    assert status == 200, answer
    prompt = server.post("/detokenize", {"tokens": answer["prompt_token_ids"]})[1]["prompt"]
    assert prompt.endswith("</think>" + content)


def test_nothing_to_continue_is_refused(server):
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": ""}]
    status, answer = server.post("/v1/chat/completions", {"messages": messages, "continue_final_message": True, "max_tokens": 1})
    assert status == 400 and answer["error"]["param"] == "continue_final_message"


def test_echo_shows_what_was_used(server):
    status, answer = server.post("/v1/completions", {"prompt": "one two three four", "truncate_prompt_tokens": 1, "echo": True, "max_tokens": 0})
    assert status == 200
    assert "four".endswith(answer["choices"][0]["text"].strip())
