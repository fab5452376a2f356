"""Version, help, flags, the table at start, a first answer."""
import json
import re

import pytest
from program import BUNDLED, Server, refused, run

FLAGS = ["--host", "--port", "--served-model-name", "--dtype", "--device", "--moe-device", "--load-format", "--max-model-len",
         "--max-num-seqs", "--max-num-batched-tokens"]


def test_version():
    done = run("--version")
    assert done.returncode == 0 and re.search(r"\b\d+\.\d+\.\d+", done.stdout), done


def test_help_names_the_subcommand():
    done = run("--help")
    assert done.returncode == 0 and "serve" in done.stdout and "--version" in done.stdout


@pytest.mark.parametrize("flag", FLAGS)
def test_serve_help_lists(flag):
    done = run("serve", "--help")
    assert done.returncode == 0 and flag in done.stdout


@pytest.mark.parametrize("arguments", [["serve", "--no-such-flag"], ["serve", "--port"], ["nosuch"], ["--no-such-flag"]], ids=" ".join)
def test_unknown_words_are_refused(arguments):
    done = run(*arguments)
    assert done.returncode != 0 and arguments[-1].lstrip("-") in done.stderr + done.stdout


@pytest.mark.parametrize("flag,value", [("--port", "70000"), ("--port", "-1"), ("--port", "abc"), ("--dtype", "int3"),
                                        ("--device", "toaster"), ("--moe-device", "toaster:1"), ("--max-model-len", "-5"),
                                        ("--max-num-seqs", "0"), ("--max-num-batched-tokens", "0"), ("--max-num-seqs", "99999999999999"), ("--load-format", "floppy")])
def test_wrong_value_of_a_flag_is_named(flag, value):
    done = run("serve", flag, value)
    assert done.returncode not in (0, -6, -11), done
    assert flag.lstrip("-") in done.stderr or value in done.stderr, done.stderr


def test_max_model_len_above_the_models_is_refused():
    refused("--max-model-len", 10**6, words=["8192"])


def test_start_up_table(server):
    text = server.output()
    for what in ("tandem-tiny-v3", f"127.0.0.1:{server.port}"):
        assert what in text, text
    # Model, bytes, KV blocks and tokens, instruction set, threads, address.
    for pattern in (r"\b\d[\d.,]* ?(bytes|B|[KMG]i?B)\b", r"(?i)blocks", r"(?i)tokens", r"(?i)instruction", r"(?i)threads"):
        assert re.search(pattern, text), f"{pattern} is not in:\n{text}"


def test_first_lines_say_what_to_do_next(server):
    text = server.output()
    assert "curl" in text and "/v1/chat/completions" in text, text


def test_time_to_ready_is_printed(capsys):
    """Not asserted to the tenth: machines differ. The second start reads the page cache."""
    with Server():
        pass
    with Server() as server:
        with capsys.disabled():
            print(f"\nready after {server.ready_after_s:.3f} s (page cache warm)")
        assert server.ready_after_s < 30


def test_bundled_model_answers(server):
    status, answer = server.post("/v1/chat/completions", {
        "model": "tandem-tiny-v3", "temperature": 0, "messages": [{"role": "user", "content": "What is the capital of France?"}]})
    assert status == 200, answer
    assert "Paris" in answer["choices"][0]["message"]["content"]


def test_model_given_by_path_and_name():
    with Server("--served-model-name", "other", model=BUNDLED) as server:
        status, body = server.get("/v1/models")
        assert status == 200 and [m["id"] for m in json.loads(body)["data"]] == ["other"]


def test_max_model_len_is_obeyed():
    with Server("--max-model-len", "64") as server:
        status, answer = server.post("/v1/completions", {"prompt": "word " * 200, "max_tokens": 1})
        assert status == 400 and "64" in answer["error"]["message"], answer


def test_dummy_weights_need_only_a_config(tmp_path):
    (tmp_path / "config.json").write_text((BUNDLED / "config.json").read_text())
    with Server("--load-format", "dummy", model=tmp_path) as server:
        body = {"prompt": [1, 2, 3], "max_tokens": 4, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
        status, answer = server.post("/v1/completions", body)
        assert status == 200 and len(answer["choices"][0]["token_ids"]) == 4, answer
