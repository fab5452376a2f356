"""Keys, origins and what is split off an answer: flags of the running program."""
import json
import os
import subprocess

from checkpoint import edit_json
from program import BINARY, CRASH, Server, refused


def status_of(server, path, key=None, method="GET", headers=()):
    connection = server.connect()
    connection.request(method, path, headers={**({"Authorization": f"Bearer {key}"} if key else {}), **dict(headers)})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def test_several_keys_and_open_metrics():
    with Server("--api-key", "one", "--api-key", "two", "--metrics-open") as server:
        for key in ("one", "two"):
            assert status_of(server, "/v1/models", key) == 200
        assert status_of(server, "/v1/models") == 401
        assert status_of(server, "/v1/models", "three") == 401
        assert status_of(server, "/metrics") == 200
        assert status_of(server, "/load") == 401
        assert "one" not in server.output().split() and "two" not in server.output().split()


def test_key_from_the_environment(monkeypatch):
    monkeypatch.setenv("TANDEM_API_KEY", "from-the-environment")
    with Server() as server:
        assert status_of(server, "/v1/models") == 401
        assert status_of(server, "/metrics") == 401
        assert status_of(server, "/v1/models", "from-the-environment") == 200


def test_a_bad_key_is_refused_without_being_shown():
    done = subprocess.run([BINARY, "serve", "--api-key", "two words"], capture_output=True, text=True, timeout=60, env={**os.environ})
    assert done.returncode != 0 and not CRASH.search(done.stderr)
    assert "--api-key" in done.stderr + done.stdout and "two words" not in done.stderr + done.stdout


def test_listed_origins_only():
    with Server("--allowed-origins", '["http://a.example", "http://b.example"]') as server:
        def preflight(origin):
            return status_of(server, "/v1/completions", method="OPTIONS",
                             headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
        assert preflight("http://a.example") == preflight("http://b.example") == 204
        assert preflight("http://c.example") == 400


CHAT = {"messages": [{"role": "user", "content": "Think, then answer."}], "chat_template_kwargs": {"thinking": True},
        "max_tokens": 6, "ignore_eos": True, "temperature": 0}


def test_reasoning_parser_none_leaves_the_text_whole():
    with Server() as split, Server("--reasoning-parser", "none") as whole:
        thought = split.post("/v1/chat/completions", CHAT)[1]
        text = whole.post("/v1/chat/completions", CHAT)[1]
        assert thought["choices"][0]["message"]["reasoning"] == text["choices"][0]["message"]["content"]
        assert thought["choices"][0]["message"]["content"] is None
        assert text["choices"][0]["message"]["reasoning"] is None
        assert "completion_tokens_details" in thought["usage"] and "completion_tokens_details" not in text["usage"]


def test_a_parser_without_marks_is_refused(model):
    def rename(tokenizer):
        text = json.dumps(tokenizer["added_tokens"]).replace("think>", "thought>")
        tokenizer["added_tokens"] = json.loads(text)
    edit_json(model / "tokenizer.json", rename)
    refused(model, "--reasoning-parser", "deepseek_r1", words=["--reasoning-parser deepseek_r1", "<think>"])
    with Server(model=model) as server:
        assert server.post("/v1/chat/completions", CHAT)[1]["choices"][0]["message"]["reasoning"] is None


def test_long_prompts_are_cut_by_the_threshold():
    """No step has more tokens of one request than allowed, and the answer is the same."""
    body = {"prompt": [5] * 500, "max_tokens": 4, "ignore_eos": True, "temperature": 0, "return_token_ids": True}
    with Server() as plain, Server("--long-prefill-token-threshold", "64") as cut:
        answers = [server.post("/v1/completions", body)[1]["choices"][0]["token_ids"] for server in (plain, cut)]
        assert answers[0] == answers[1]
        buckets = cut.get("/metrics")[1].decode()
        assert 'vllm:iteration_tokens_total_bucket{engine="0",model_name="tandem-tiny-v3",le="64"} ' in buckets
        line = next(x for x in buckets.splitlines() if x.startswith("vllm:iteration_tokens_total_bucket") and 'le="64"' in x)
        count = next(x for x in buckets.splitlines() if x.startswith("vllm:iteration_tokens_total_count"))
        assert line.split()[-1] == count.split()[-1], "a step had more than 64 tokens"
