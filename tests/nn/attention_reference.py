#!/usr/bin/env python3
"""Writes attention_reference.h: what PyTorch, Keras and transformers say of attention with options that few models have, in float64.

    KERAS_BACKEND=torch python3 tests/nn/attention_reference.py > tests/nn/attention_reference.h    # PyTorch 2.x, Keras 3, transformers 5, CPU
"""
import math

import keras
import torch
import transformers

torch.set_default_dtype(torch.float64)
keras.config.set_floatx("float64")


def values(shape, seed, low=-1.0, high=1.0):
    """The formula of formula() in attention_peers_test.cpp."""
    n = math.prod(shape)
    return torch.tensor([low + (high - low) * (((i + 1) * 2654435761 + seed * 40503) % 65536) / 65536 for i in range(n)]).reshape(shape)


def put(name, tensor):
    numbers = ", ".join(repr(x) for x in tensor.detach().reshape(-1).tolist())
    print(f"inline constexpr double {name}[] = {{{numbers}}};")


QUERIES, KEYS, VALUES = values((2, 3, 4), 5), values((2, 4, 4), 6), values((2, 4, 4), 7)
PADDED = torch.tensor([[False] * 4, [False, False, True, True]])


def pytorch(name, mask=None, padding=None, **options):
    layer = torch.nn.MultiheadAttention(4, 2, batch_first=True, **options)
    given = {"in_proj_weight": 1, "in_proj_bias": 2, "out_proj.weight": 3, "out_proj.bias": 4, "bias_k": 10, "bias_v": 11}
    for key, parameter in layer.named_parameters():
        parameter.data = values(tuple(parameter.shape), given[key])
    inputs = [x.clone().requires_grad_() for x in (QUERIES, KEYS, VALUES)]
    if mask is not None:
        mask = mask.clone().requires_grad_()
    y, _ = layer(*inputs, attn_mask=mask, key_padding_mask=padding)
    put(f"k{name}", y)
    (y * values((2, 3, 4), 9)).sum().backward()
    for letter, x in zip("QKV", inputs):
        put(f"k{name}D{letter}", x.grad)
    if mask is not None:
        put(f"k{name}DBias", mask.grad)
    put(f"k{name}DOut", layer.out_proj.weight.grad)
    if layer.bias_k is not None:
        put(f"k{name}DMoreKey", layer.bias_k.grad)
        put(f"k{name}DMoreValue", layer.bias_v.grad)


def keras_layers():
    layer = keras.layers.MultiHeadAttention(2, 3, 1)
    layer.build((2, 3, 4), (2, 4, 4), (2, 4, 4))
    for seed, weight in enumerate(layer.trainable_weights, 20):
        weight.assign(values(tuple(weight.shape), seed))
    put("kValueSize", layer(QUERIES, KEYS, value_mask=~PADDED))
    put("kValueSizeCausal", layer(QUERIES, QUERIES, use_causal_mask=True))
    put("kLuongCausal", keras.layers.Attention()([QUERIES, KEYS], mask=[None, ~PADDED], use_causal_mask=True))
    group = keras.layers.GroupQueryAttention(3, 4, 2)
    group.build((2, 3, 4), (2, 4, 4), (2, 4, 4))
    for seed, weight in enumerate(group.trainable_weights, 30):
        weight.assign(values(tuple(weight.shape), seed))
    put("kGroupQuery", group(QUERIES, KEYS))


def blocks():
    """One block whose attention and dense part stand side by side: our weights of attention, in their order of heads."""
    x, fused = values((2, 5, 8), 40), values((24, 8), 41)
    shared = {"norm1": (42, 43), "norm2": (44, 45), "norm": (46, 47), "out": 48, "up": (49, 50), "down": (51, 52)}

    def set_norm(norm, seeds):
        norm.weight.data, norm.bias.data = values((8,), seeds[0], 0.5, 1.5), values((8,), seeds[1])

    def set_dense(dense, seeds):
        dense.weight.data, dense.bias.data = values(tuple(dense.weight.shape), seeds[0]), values(tuple(dense.bias.shape), seeds[1])

    model = transformers.GPTJModel(transformers.GPTJConfig(
        vocab_size=4, n_positions=8, n_embd=8, n_layer=1, n_head=2, rotary_dim=2, n_inner=6, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)).eval()
    block = model.h[0]
    for part, rows in zip((block.attn.q_proj, block.attn.k_proj, block.attn.v_proj), fused.split(8)):
        part.weight.data = rows.clone()
    block.attn.out_proj.weight.data = values((8, 8), shared["out"])
    set_norm(block.ln_1, shared["norm1"])
    set_norm(model.ln_f, shared["norm"])
    set_dense(block.mlp.fc_in, shared["up"])
    set_dense(block.mlp.fc_out, shared["down"])
    put("kGptJ", model(inputs_embeds=x).last_hidden_state)

    model = transformers.GPTNeoXModel(transformers.GPTNeoXConfig(
        vocab_size=4, max_position_embeddings=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=6,
        rotary_pct=0.5, hidden_act="gelu", use_parallel_residual=True, attention_bias=True)).eval()
    block = model.layers[0]
    # Theirs are queries, keys and values of one head after another.
    block.attention.query_key_value.weight.data = fused.reshape(3, 2, 4, 8).transpose(0, 1).reshape(24, 8).clone()
    block.attention.query_key_value.bias.data = values((24,), 53).reshape(3, 2, 4).transpose(0, 1).reshape(24).clone()
    set_dense(block.attention.dense, (shared["out"], 54))
    set_norm(block.input_layernorm, shared["norm1"])
    set_norm(block.post_attention_layernorm, shared["norm2"])
    set_norm(model.final_layer_norm, shared["norm"])
    set_dense(block.mlp.dense_h_to_4h, shared["up"])
    set_dense(block.mlp.dense_4h_to_h, shared["down"])
    put("kGptNeoX", model(inputs_embeds=x).last_hidden_state)


print(f"""// Written by attention_reference.py with PyTorch {torch.__version__.split("+")[0]}, Keras {keras.__version__}, transformers {transformers.__version__}.
#pragma once

namespace perigee {{

// clang-format off""")
pytorch("FloatMask", mask=values((4, 3, 4), 8, -2, 2))
pytorch("MoreKeys", padding=PADDED, add_bias_kv=True, add_zero_attn=True)
keras_layers()
blocks()
print("""// clang-format on

}  // namespace perigee""")
