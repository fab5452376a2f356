"""Whatever is wrong with a model folder: one line that names it, exit code 1, nothing else."""
import json

import pytest
from checkpoint import GOLDEN, copy, cut, edit_json, own, rewrite_header, set_header_size
from program import refused

WEIGHTS = "model.safetensors"


def test_folder_that_is_not_there(tmp_path):
    refused(tmp_path / "nowhere", words=["nowhere"])


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", words=["file"])


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", WEIGHTS])
def test_missing_file(model, name):
    (model / name).unlink()
    refused(model, words=[name])


# ------------------------------------------------------------------------------------------------------ config.json
@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "{'a': 1}", '{"a": 1} x', "\ufeff", "[" * 100_000, '{"a":' * 100_000],
                         ids=["empty", "cut", "array", "null", "string", "quotes", "trailing", "mark", "deep array", "deep object"])
def test_config_that_is_no_json_object(model, text):
    (model / "config.json").write_text(text)
    refused(model, words=["config.json"])


def test_config_that_is_no_text(model):
    (model / "config.json").write_bytes(b'{"architectures": ["\xff\xfe"]}')
    refused(model, words=["config.json"])


def test_unknown_architecture_is_named(model):
    edit_json(model / "config.json", lambda c: c.update(architectures=["FooForCausalLM"], model_type="foo"))
    refused(model, words=["FooForCausalLM"])


def test_no_architecture(model):
    edit_json(model / "config.json", lambda c: c.pop("architectures"))
    refused(model, words=["architectures"])


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "kv_lora_rank", "qk_nope_head_dim",
                                 "qk_rope_head_dim", "v_head_dim", "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"])
@pytest.mark.parametrize("value", [0, -1, "x", 1.5, None, [], 2**31, 2**63, 10**400], ids=lambda v: str(v)[:12])
def test_size_that_cannot_be(model, key, value):
    edit_json(model / "config.json", lambda c: c.update({key: value}))
    refused(model)


@pytest.mark.parametrize("change", [{"n_group": 3}, {"topk_group": 9}, {"num_experts_per_tok": 17}, {"first_k_dense_replace": -1},
                                    {"qk_rope_head_dim": 15}, {"scoring_func": "tanh"}, {"topk_method": "dice"}, {"hidden_act": "relu6"},
                                    {"rope_scaling": {"type": "spiral", "factor": 2}}, {"rope_theta": -1}, {"rms_norm_eps": "x"},
                                    {"rope_scaling": {"type": "yarn", "factor": 0, "original_max_position_embeddings": 2048}}], ids=str)
def test_values_that_contradict_or_are_unknown(model, change):
    edit_json(model / "config.json", lambda c: c.update(change))
    refused(model, words=[next(iter(change))])


@pytest.mark.parametrize("method", ["bitsandbytes", "exl2"])
def test_unknown_quantization_is_named(model, method):
    edit_json(model / "config.json", lambda c: c["quantization_config"].update(quant_method=method))
    refused(model, words=[method])


# ---------------------------------------------------------------------------------------------------------- weights
@pytest.mark.parametrize("size", [0, 4, 8, 1000, 90_000, 10_000_000, -1])
def test_cut_weights(model, size):
    cut(model / WEIGHTS, size)
    refused(model, words=[WEIGHTS])


@pytest.mark.parametrize("size", [0, 1, 2**20, 2**31, 2**40, 2**63, 2**64 - 8, 2**64 - 1])
def test_header_size_that_lies(model, size):
    set_header_size(model / WEIGHTS, size)
    refused(model, words=[WEIGHTS])


@pytest.mark.parametrize("header", ["", "{", "[]", "null", '{"model.norm.weight": 5}', "[" * 200_000, '{"a":{"dtype":"F32"}}'],
                         ids=["empty", "cut", "array", "null", "number", "deep", "incomplete"])
def test_header_that_is_no_header(model, header):
    rewrite_header(model / WEIGHTS, lambda _: header)
    refused(model, words=[WEIGHTS])


NORM = "model.norm.weight"
LIES = {
    "offset past the end": lambda t: t.update(data_offsets=[t["data_offsets"][0], 2**40]),
    "offset huge": lambda t: t.update(data_offsets=[2**64 - 512, 2**64 - 1]),
    "offset negative": lambda t: t.update(data_offsets=[-512, 0]),
    "offsets reversed": lambda t: t.update(data_offsets=t["data_offsets"][::-1]),
    "offset one": lambda t: t.update(data_offsets=t["data_offsets"][:1]),
    "offset text": lambda t: t.update(data_offsets=["a", "b"]),
    "offset fraction": lambda t: t.update(data_offsets=[0.5, 512.5]),
    "shape larger": lambda t: t.update(shape=[257]),
    "shape smaller": lambda t: t.update(shape=[255]),
    "shape negative": lambda t: t.update(shape=[-256]),
    "shape overflows": lambda t: t.update(shape=[2**32, 2**32, 2**32]),
    "shape wraps to the size": lambda t: t.update(shape=[2**63 + 128, 2]),
    "shape missing": lambda t: t.pop("shape"),
    "shape deep": lambda t: t.update(shape=[1] * 64 + [256]),
    "shape other": lambda t: t.update(shape=[16, 16]),
    "dtype unknown": lambda t: t.update(dtype="F3"),
    "dtype other size": lambda t: t.update(dtype="U8"),
    "dtype number": lambda t: t.update(dtype=7),
}


@pytest.mark.parametrize("lie", LIES)
def test_tensor_entry_that_lies(model, lie):
    rewrite_header(model / WEIGHTS, lambda header: LIES[lie](header[NORM]))
    refused(model, words=[NORM])


def test_tensors_that_overlap(model):
    def overlap(header):
        other = header["model.layers.0.input_layernorm.weight"]
        header[NORM]["data_offsets"] = other["data_offsets"]
    rewrite_header(model / WEIGHTS, overlap)
    refused(model, words=[WEIGHTS])


@pytest.mark.parametrize("name", [NORM, "lm_head.weight", "model.layers.3.mlp.experts.7.down_proj.weight",
                                  "model.layers.3.mlp.experts.7.down_proj.weight_scale_inv", "model.layers.2.mlp.gate.e_score_correction_bias"])
def test_missing_tensor_is_named(model, name):
    def drop(header):
        # Another name keeps the bytes accounted for.
        header["unused." + name] = header.pop(name)
    rewrite_header(model / WEIGHTS, drop)
    refused(model, words=[name])


def test_swapped_tensors(model):
    a, b = "model.layers.0.self_attn.q_a_proj.weight", "model.layers.0.mlp.gate_proj.weight"

    def swap(header):
        header[a], header[b] = header[b], header[a]
    rewrite_header(model / WEIGHTS, swap)
    line = refused(model)
    assert a in line or b in line


def test_weights_of_another_model(model):
    (model / WEIGHTS).unlink()
    (model / WEIGHTS).write_bytes((GOLDEN / "deepseek_v2/model.safetensors").read_bytes())
    refused(model)


# ------------------------------------------------------------------------------------------------- sharded weights
@pytest.fixture
def sharded(tmp_path):
    return copy(tmp_path / "sharded", GOLDEN / "deepseek_v3_fp8")


def test_missing_shard_is_named(sharded):
    (sharded / "model-00002-of-00002.safetensors").unlink()
    refused(sharded, words=["model-00002-of-00002.safetensors"])


def test_index_that_names_a_file_outside(sharded):
    def escape(index):
        name = next(iter(index["weight_map"]))
        index["weight_map"][name] = "../../etc/passwd"
    edit_json(sharded / "model.safetensors.index.json", escape)
    refused(sharded)


def test_index_that_is_stale(sharded):
    def shift(index):
        name = next(k for k, v in index["weight_map"].items() if v.endswith("00001-of-00002.safetensors"))
        index["weight_map"][name] = "model-00002-of-00002.safetensors"
    edit_json(sharded / "model.safetensors.index.json", shift)
    refused(sharded)


def test_cut_shard(sharded):
    cut(sharded / "model-00001-of-00002.safetensors", -1)
    refused(sharded, words=["model-00001-of-00002.safetensors"])


# --------------------------------------------------------------------------------------------------------- tokenizer
@pytest.mark.parametrize("text", ["", "{", "[]", '{"model": 5}', '{"model": {"type": "BPE", "vocab": [], "merges": {}}}', "[" * 100_000],
                         ids=["empty", "cut", "array", "number", "kinds", "deep"])
def test_wrong_tokenizer(model, text):
    (model / "tokenizer.json").write_text(text)
    refused(model, words=["tokenizer"])


def test_cut_tokenizer(model):
    cut(own(model / "tokenizer.json"), 100_000)
    refused(model, words=["tokenizer.json"])


def test_token_ids_above_the_vocabulary(model):
    def raise_id(tokenizer):
        vocabulary = tokenizer["model"]["vocab"]
        vocabulary[next(iter(vocabulary))] = 2**31 + 5
    edit_json(model / "tokenizer.json", raise_id)
    refused(model, words=["tokenizer.json"])


@pytest.mark.parametrize("template", ["{% if %}", "{{ messages[", "{% for m in messages %}"], ids=str)
def test_template_that_does_not_parse(model, template):
    edit_json(model / "tokenizer_config.json", lambda c: c.update(chat_template=template))
    refused(model, words=["template"])


def test_tokenizer_config_that_is_no_json(model):
    (model / "tokenizer_config.json").write_text("{")
    refused(model, words=["tokenizer_config.json"])


def test_names_cannot_forge_a_line(model):
    """A name from a file may hold a line break and colour codes; the message stays one clean line."""
    text = json.loads((model / "config.json").read_text())
    text["architectures"] = ["Evil\nINFO all is well\x1b[31m"]
    (model / "config.json").write_text(json.dumps(text))
    line = refused(model, words=["Evil"])
    assert "\x1b" not in line
