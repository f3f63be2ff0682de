// Layers that attend against PyTorch and transformers: outputs and gradients in float64 by the reference kernels, and outputs in f32 by the
// host's. The files are those of $PERIGEE_DATA/oracles/sequences.
#include <gtest/gtest.h>

#include <cstring>

#include "src/io/safetensors.h"
#include "src/model/steps/step_model.h"
#include "tests/nn/attention_case.h"

namespace perigee {
namespace {

using namespace attention_case;

TEST(AttentionOracle, SelfAttentionIsPyTorchs) {
  PERIGEE_ORACLE(a, "mha_causal");
  const std::string p = "attention1.";
  Case c{.layers = R"([{"type": "attention", "heads": 2, "causal": true, "bias": true}])"};
  c.inputs = {{"q", features_first(a.at("q"))}};
  c.parameters = {{p + "in_weight", a.at("in_proj_weight")},
                  {p + "in_bias", a.at("in_proj_bias")},
                  {p + "out_weight", a.at("out_proj.weight")},
                  {p + "out_bias", a.at("out_proj.bias")}};
  c.y = features_first(a.at("y")), c.gy = features_first(a.at("gy"));
  c.gradients = {{"q", features_first(a.at("dq"))},
                 {p + "in_weight", a.at("d.in_proj_weight")},
                 {p + "in_bias", a.at("d.in_proj_bias")},
                 {p + "out_weight", a.at("d.out_proj.weight")},
                 {p + "out_bias", a.at("d.out_proj.bias")}};
  check(c);
}

Case cross(const Arrays& a, const char* layer) {
  const std::string p = "attention1.";
  Case c{.layers = layer};
  const bool packed = a.contains("in_proj_weight");
  for (const char* name : {"q", "k", "v"}) c.inputs.push_back({name, features_first(a.at(name))});
  for (int64_t i = 0; i < 3; ++i) {
    const std::string n(1, "qkv"[i]);
    const auto weight = [&](const std::string& d) {
      return packed ? part(a.at(d + "in_proj_weight"), i, 3) : a.at(d + n + "_proj_weight");
    };
    c.parameters.push_back({p + n + "_weight", weight("")});
    c.parameters.push_back({p + n + "_bias", part(a.at("in_proj_bias"), i, 3)});
    c.gradients[p + n + "_weight"] = weight("d.");
    c.gradients[p + n + "_bias"] = part(a.at("d.in_proj_bias"), i, 3);
    c.gradients[n] = features_first(a.at("d" + n));
  }
  for (const char* name : {"weight", "bias"}) {
    c.parameters.push_back({p + "out_" + name, a.at(std::string("out_proj.") + name)});
    c.gradients[p + "out_" + name] = a.at(std::string("d.out_proj.") + name);
  }
  c.y = features_first(a.at("y")), c.gy = features_first(a.at("gy"));
  return c;
}

constexpr const char* kCross =
    R"({"type": "graph", "inputs": ["q", "k", "v"], "nodes": [{"name": "attention1", "layer": {"type": "attention", "heads": 2, "out": 8, "head_size": 4, "bias": true}, "inputs": ["q", "k", "v"]}], "outputs": ["attention1"]})";

TEST(AttentionOracle, KeysAndValuesOfOtherSizesArePyTorchs) {
  PERIGEE_ORACLE(a, "mha_cross_kdim");
  check(cross(a, kCross));
}

TEST(AttentionOracle, PaddedKeysAreNotLookedAt) {
  PERIGEE_ORACLE(a, "mha_cross_padding");
  Case c = cross(a, kCross);
  // The field that has the mask comes last; attention takes that of its keys.
  std::swap(c.inputs[1], c.inputs[2]);
  c.mask = inverted(a.at("key_padding_mask"));
  check(c);
}

TEST(AttentionOracle, NumbersAreAddedToScoresAsInPyTorch) {
  PERIGEE_ORACLE(a, "mha_float_mask");
  Case c = cross(
      a,
      R"({"type": "graph", "inputs": ["q", "k", "v", "b"], "nodes": [{"name": "attention1", "layer": {"type": "attention", "heads": 2, "out": 8,
                 "head_size": 4, "bias": true}, "inputs": ["q", "k", "v", "b"]}], "outputs": ["attention1"]})");
  const Tensor mask = a.at("attn_mask").to(Dtype::f64).reshape(Shape{1, 5, 6});
  c.inputs.push_back({"b", joined({&mask, &mask})});
  check(c);
}

TEST(AttentionOracle, MoreKeysArePyTorchs) {
  PERIGEE_ORACLE(a, "mha_bias_kv");
  Case c = cross(
      a,
      R"({"type": "graph", "inputs": ["q", "k", "v"], "nodes": [{"name": "attention1", "layer": {"type": "attention", "heads": 2, "out": 8,
                 "head_size": 4, "bias": true, "more_keys": "both"}, "inputs": ["q", "k", "v"]}], "outputs": ["attention1"]})");
  for (const auto& [ours, theirs] : {std::pair{"more_key", "bias_k"}, {"more_value", "bias_v"}}) {
    c.parameters.push_back({std::string("attention1.") + ours, a.at(theirs).to(Dtype::f64).reshape(Shape{1, 8})});
    c.gradients[std::string("attention1.") + ours] = a.at(std::string("d.") + theirs).to(Dtype::f64).reshape(Shape{1, 8});
  }
  check(c);
}

Case encoder(const Arrays& a, const char* layer) {
  const std::string p = "transformer1.block1.";
  const std::pair<const char*, const char*> names[] = {{"attention_in_weight", "self_attn.in_proj_weight"},
                                                       {"attention_in_bias", "self_attn.in_proj_bias"},
                                                       {"attention_out_weight", "self_attn.out_proj.weight"},
                                                       {"attention_out_bias", "self_attn.out_proj.bias"},
                                                       {"up_weight", "linear1.weight"},
                                                       {"up_bias", "linear1.bias"},
                                                       {"down_weight", "linear2.weight"},
                                                       {"down_bias", "linear2.bias"},
                                                       {"norm1_weight", "norm1.weight"},
                                                       {"norm1_bias", "norm1.bias"},
                                                       {"norm2_weight", "norm2.weight"},
                                                       {"norm2_bias", "norm2.bias"}};
  Case c{.layers = layer};
  c.inputs = {{"x", features_first(a.at("x"))}};
  for (const auto& [ours, theirs] : names) {
    c.parameters.push_back({p + ours, a.at(theirs)});
    c.gradients[p + ours] = a.at(std::string("d.") + theirs);
  }
  c.gradients["x"] = features_first(a.at("dx"));
  c.mask = c.compared = inverted(a.at("key_padding_mask"));
  c.y = features_first(a.at("y"));
  c.gy = features_first(a.at("gy"));
  return c;
}

TEST(AttentionOracle, EncoderLayersThatNormaliseSumsArePyTorchs) {
  PERIGEE_ORACLE(post, "encoder_layer_post_relu");
  check(encoder(post, R"([{"type": "transformer", "heads": 2, "hidden": 16, "norm": "post", "activation": "relu"}])"));
}

TEST(AttentionOracle, EncoderLayersThatNormaliseFirstArePyTorchs) {
  PERIGEE_ORACLE(pre, "encoder_layer_pre_gelu");
  check(encoder(pre, R"([{"type": "transformer", "heads": 2, "hidden": 16, "last_norm": false}])"));
}

TEST(AttentionOracle, EncoderLayersWithTheOtherActivationArePyTorchs) {
  PERIGEE_ORACLE(post, "encoder_layer_post_gelu");
  check(encoder(post, R"([{"type": "transformer", "heads": 2, "hidden": 16, "norm": "post"}])"));
  PERIGEE_ORACLE(pre, "encoder_layer_pre_relu");
  check(encoder(pre, R"([{"type": "transformer", "heads": 2, "hidden": 16, "last_norm": false, "activation": "relu"}])"));
}

TEST(AttentionOracle, RmsNormIsPyTorchs) {
  PERIGEE_ORACLE(a, "rms_norm");
  const auto rows = [](const Tensor& x) { return x.to(Dtype::f64).reshape(Shape{x.shape()[0], x.shape()[1], 1}); };
  Case c{.layers = R"([{"type": "rms_norm", "over": "channels"}])"};
  c.inputs = {{"x", rows(a.at("x"))}};
  c.parameters = {{"rms1.weight", a.at("weight")}};
  c.y = rows(a.at("y")), c.gy = rows(a.at("gy"));
  c.gradients = {{"x", rows(a.at("dx"))}, {"rms1.weight", a.at("dweight")}};
  check(c);
}

// [B, H, T, d] -> [B, H d, T]: heads as they lie in the features of a sequence.
Tensor heads_as_features(const Tensor& x) {
  const Shape s = x.shape();
  const Tensor y = features_first(x.reshape(Shape{s[0] * s[1], s[2], s[3]}));
  return y.reshape(Shape{s[0], s[1] * s[3], s[2]});
}

Case plain(const Arrays& a, const std::string& options, const std::string& result) {
  Case c{.layers =
             R"({"type": "graph", "inputs": ["q", "k", "v"], "nodes": [{"name": "a", "layer": {"type": "attention", "project": false, )" +
             options + R"(}, "inputs": ["q", "k", "v"]}], "outputs": ["a"]})"};
  for (const char* name : {"q", "k", "v"}) c.inputs.push_back({name, heads_as_features(a.at(name))});
  c.y = heads_as_features(a.at(result));
  return c;
}

TEST(AttentionOracle, ScaledDotProductsArePyTorchs) {
  PERIGEE_ORACLE(a, "sdpa_gqa");
  Case c = plain(a, R"("heads": 4, "kv_heads": 2)", "y");
  c.gy = heads_as_features(a.at("gy"));
  for (const char* name : {"q", "k", "v"}) c.gradients[name] = heads_as_features(a.at(std::string("d") + name));
  check(c);
}

TEST(AttentionOracle, QueriesOfCausalAttentionAreAtTheLastKeysOrTheFirst) {
  PERIGEE_ORACLE(unequal, "sdpa_causal_unequal");
  check(plain(unequal, R"("heads": 2, "causal": true)", "lower_right"));
  check(plain(unequal, R"("heads": 2, "causal": true, "align": "first")", "upper_left"));
}

Case gpt2(const Arrays& a) {
  const Safetensors file = read_safetensors(oracle_path("hf_gpt2.safetensors"));
  const auto weight = [&](const std::string& name) { return *file.find("transformer." + name); };
  Case c{.layers =
             R"([{"type": "embedding", "name": "tokens", "size": 48, "out": 32}, {"type": "positions", "name": "places", "length": 64},
    {"type": "transformer", "layers": 2, "heads": 4, "causal": true, "activation": {"type": "gelu", "approximate": "tanh"}},
    {"type": "dense", "out": 48, "over": "steps", "tied": "tokens", "bias": false}])"};
  c.inputs = {{"ids", a.at("input_ids")}};
  c.parameters = {{"tokens.weight", weight("wte.weight")},
                  {"places.weight", weight("wpe.weight")},
                  {"transformer1.norm_weight", weight("ln_f.weight")},
                  {"transformer1.norm_bias", weight("ln_f.bias")}};
  const std::pair<const char*, const char*> names[] = {{"attention_in", "attn.c_attn"},
                                                       {"attention_out", "attn.c_proj"},
                                                       {"up", "mlp.c_fc"},
                                                       {"down", "mlp.c_proj"},
                                                       {"norm1", "ln_1"},
                                                       {"norm2", "ln_2"}};
  for (int i = 0; i < 2; ++i)
    for (const auto& [ours, theirs] : names) {
      const std::string to = "transformer1.block" + std::to_string(i + 1) + "." + ours, from = "h." + std::to_string(i) + "." + theirs;
      const Tensor w = weight(from + ".weight");
      c.parameters.push_back({to + "_weight", w.shape().rank() == 2 ? transposed(w) : w});
      c.parameters.push_back({to + "_bias", weight(from + ".bias")});
    }
  c.y = features_first(a.at("logits"));
  return c;
}

TEST(AttentionOracle, Gpt2GivesTheLogitsOfTransformers) {
  PERIGEE_ORACLE(a, "hf_gpt2");
  Case c = gpt2(a);
  check(c);
  c.mask = c.compared = a.at("left_pad_mask");
  c.y = features_first(a.at("logits_left_pad"));
  check(c);
}

std::shared_ptr<StepModel> sessions_of(const Case& c, int64_t steps, int64_t rows, Dtype dtype) {
  ModelSpec spec{.network = Json::parse(c.layers, "test"), .where = "net.json", .dtype = dtype};
  spec.inputs = {{c.inputs[0].first, {Dtype::i64, Shape{steps}}}};
  Model model(std::move(spec));
  for (const auto& [name, tensor] : c.parameters) {
    const Tensor to = model.params().parameter_tensor(model.params().find(name)), from = tensor.to(dtype);
    std::memcpy(to.view().data, from.view().data, static_cast<size_t>(from.elements()) * dtype_bytes(dtype));
  }
  return std::make_shared<StepModel>(model, rows);
}

// Step by step; two sessions take turns.
TEST(AttentionOracle, SessionsOfGpt2GiveTheLogitsOfTransformers) {
  PERIGEE_ORACLE(a, "hf_gpt2");
  const Case c = gpt2(a);
  const int64_t rows = 2, steps = 12, words = 48;
  const Tensor &ids = a.at("input_ids"), &logits = a.at("logits");
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const auto model = sessions_of(c, steps, rows, dtype);
    StepSession session(model), other(model);
    Tensor y(dtype, Shape{rows, words, 1});
    for (int64_t t = 0; t < steps; ++t) {
      const int64_t now[] = {ids.data<int64_t>()[t], ids.data<int64_t>()[steps + t]}, swapped[] = {now[1], now[0]};
      other.step(swapped, 1, y.view().data);
      session.step(now, 1, y.view().data);
      const Tensor got = y.to(Dtype::f64);
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < words; ++i)
          ASSERT_NEAR(got.data<double>()[row * words + i], logits.data<double>()[(row * steps + t) * words + i],
                      dtype == Dtype::f64 ? 1e-10 : 1e-5)
              << "step " << t;
    }
  }
}

TEST(AttentionOracle, SessionsOfGpt2ChooseTheTokensOfTransformers) {
  PERIGEE_ORACLE(a, "hf_gpt2");
  const Tensor& tokens = a.at("greedy");
  const int64_t steps = tokens.shape()[1], prompt = a.at("prompt").shape()[1];
  StepSession session(sessions_of(gpt2(a), steps, 1, Dtype::f32));
  std::vector<float> scores(48);
  for (int64_t t = 0; t + 1 < steps; ++t) {
    session.step(tokens.data<int64_t>() + t, 1, scores.data());
    if (t + 1 < prompt) continue;
    ASSERT_EQ(std::max_element(scores.begin(), scores.end()) - scores.begin(), tokens.data<int64_t>()[t + 1]) << "token " << t + 1;
  }
}

// Word, position and type of each token summed.
Tensor bert_embeddings(const Safetensors& file, const Arrays& a) {
  const auto table = [&](const char* name) { return file.find(std::string("bert.embeddings.") + name + "_embeddings.weight"); };
  const Tensor &ids = a.at("input_ids"), &types = a.at("token_type_ids");
  Tensor sum(Dtype::f64, Shape{2, 12, 32});
  for (int64_t i = 0; i < 24; ++i)
    for (int64_t c = 0; c < 32; ++c)
      sum.data<double>()[i * 32 + c] = table("word")->data<double>()[ids.data<int64_t>()[i] * 32 + c] +
                                       table("position")->data<double>()[i % 12 * 32 + c] +
                                       table("token_type")->data<double>()[types.data<int64_t>()[i] * 32 + c];
  return sum;
}

TEST(AttentionOracle, BertGivesTheStatesOfTransformers) {
  PERIGEE_ORACLE(a, "hf_bert");
  const Safetensors file = read_safetensors(oracle_path("hf_bert.safetensors"));
  Case c{.layers = R"([{"type": "layernorm", "name": "norm", "over": "channels", "epsilon": 1e-12},
    {"type": "transformer", "layers": 2, "heads": 4, "hidden": 64, "norm": "post", "epsilon": 1e-12}])"};
  c.inputs = {{"x", features_first(bert_embeddings(file, a))}};
  c.mask = c.compared = a.at("attention_mask");
  c.parameters = {{"norm.weight", *file.find("bert.embeddings.LayerNorm.weight")},
                  {"norm.bias", *file.find("bert.embeddings.LayerNorm.bias")}};
  const std::pair<const char*, const char*> names[] = {{"attention_out", "attention.output.dense"},
                                                       {"up", "intermediate.dense"},
                                                       {"down", "output.dense"},
                                                       {"norm1", "attention.output.LayerNorm"},
                                                       {"norm2", "output.LayerNorm"}};
  for (int i = 0; i < 2; ++i)
    for (const char* kind : {"weight", "bias"}) {
      const std::string to = "transformer1.block" + std::to_string(i + 1) + ".", from = "bert.encoder.layer." + std::to_string(i) + ".";
      const auto self = [&](const char* name) { return file.find(from + "attention.self." + name + "." + kind); };
      c.parameters.push_back({to + "attention_in_" + kind, joined({self("query"), self("key"), self("value")})});
      for (const auto& [ours, theirs] : names) c.parameters.push_back({to + ours + "_" + kind, *file.find(from + theirs + "." + kind)});
    }
  c.y = features_first(a.at("last_hidden"));
  check(c);
}

}  // namespace
}  // namespace perigee
