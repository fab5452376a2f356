"""The bundled model against its Hugging Face reference (tests/golden/tandem_tiny_expected.json), over HTTP."""
import json

import pytest
from program import ROOT, Server

EXPECTED = json.loads((ROOT / "tests/golden/tandem_tiny_expected.json").read_text())
PROMPTS = EXPECTED["prompts"]
# Where the two best log-probabilities of the reference are closer than this, bfloat16 inputs may choose the other.
CLOSE_CALL = 0.15


def complete(server, prompt):
    body = {"prompt": prompt["prompt_ids"], "max_tokens": EXPECTED["tokens_per_prompt"], "temperature": 0, "logprobs": 5,
            "return_token_ids": True, "skip_special_tokens": False}
    status, answer = server.post("/v1/completions", body, timeout=300)
    assert status == 200, answer
    return answer["choices"][0]


def compare(server, prompt, tolerance):
    """(number of equal ids, whether all are): fails at a difference that is no close call, or a log-probability off."""
    choice = complete(server, prompt)
    made, wanted = choice["token_ids"], prompt["output_ids"]
    logprobs = choice["logprobs"]["token_logprobs"]
    for i, (a, b) in enumerate(zip(made, wanted)):
        if a != b:
            assert prompt["margin"][i] < CLOSE_CALL and tolerance is None, (prompt["name"], i, a, b, prompt["margin"][i])
            return i, False
        if tolerance is not None and i < len(prompt["top5"]):  # the first steps have them
            assert abs(logprobs[i] - prompt["top5"][i][0][1]) < tolerance, (prompt["name"], i)
    assert len(made) == len(wanted), prompt["name"]
    return len(wanted), True


@pytest.mark.parametrize("arguments", [["--dtype", "float32"], ["--dtype", "float32", "--instruction-set", "generic"]], ids=" ".join)
def test_float32_equals_the_reference(arguments):
    with Server(*arguments) as server:
        for prompt in PROMPTS:
            assert compare(server, prompt, tolerance=2e-3)[1], prompt["name"]


def test_reference_device_equals_the_reference():
    """The short prompts: that device is slow. All of them run below HTTP (tests/golden_test)."""
    short = sorted(PROMPTS, key=lambda p: len(p["prompt_ids"]) + len(p["output_ids"]))[:5]
    with Server("--dtype", "float32", "--device", "reference") as server:
        for prompt in short:
            assert compare(server, prompt, tolerance=2e-3)[1], prompt["name"]


def test_default_arithmetic_differs_only_at_close_calls():
    with Server() as server:
        whole = sum(compare(server, prompt, tolerance=None)[1] for prompt in PROMPTS)
    print(f"\n{whole} of {len(PROMPTS)} prompts match whole")
    assert whole >= len(PROMPTS) * 3 // 4


def test_text_and_template_equal_the_reference():
    with Server("--dtype", "float32") as server:
        for prompt in PROMPTS:
            body = {"messages": prompt["messages"], "add_generation_prompt": True,
                    "chat_template_kwargs": {"thinking": prompt["thinking"]}}
            if prompt["tools"]:
                continue  # tools come through /tokenize when tool calls are built
            status, answer = server.post("/tokenize", body)
            assert status == 200, answer
            assert answer["tokens"] == prompt["prompt_ids"], prompt["name"]
            assert complete(server, prompt)["text"] == prompt["output_text"].removesuffix("<｜end▁of▁sentence｜>")
