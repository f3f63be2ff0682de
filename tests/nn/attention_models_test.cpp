// Language models of transformers, and PyTorch's layers of decoders, with the weights of their files: $PERIGEE_DATA/oracles/sequences.
#include "src/io/safetensors.h"
#include "tests/nn/attention_case.h"

namespace perigee {
namespace {

using namespace attention_case;

// Ids, and the names of a file's tensors in ours.
struct ModelOfFile {
  explicit ModelOfFile(const std::string& name, const Arrays& a, const std::string& layers)
      : file(read_safetensors(oracle_path(name + ".safetensors"))), c{.layers = layers} {
    c.inputs = {{"ids", a.at("input_ids")}};
  }
  const Tensor& weight(const std::string& name) const { return *file.find(name); }
  void take(const std::string& ours, const std::string& theirs) { c.parameters.push_back({ours, weight(theirs)}); }
  void take_both(const std::string& ours, const std::string& theirs) {
    take(ours + "_weight", theirs + ".weight");
    take(ours + "_bias", theirs + ".bias");
  }

  // All of a batch, and with steps on the left that do not count.
  void check_logits(const Arrays& a, double tolerance) {
    c.tolerance = tolerance;
    c.y = features_first(a.at("logits"));
    check(c);
    c.mask = c.compared = a.at("left_pad_mask");
    c.y = features_first(a.at("logits_left_pad"));
    // Queries that see no key make it no number throughout in some versions of transformers.
    const Tensor compared = only_compared(c.y, c);
    const auto no_number = [](double x) { return std::isnan(x); };
    if (std::none_of(compared.data<double>(), compared.data<double>() + compared.elements(), no_number)) check(c);
  }

  Safetensors file;
  Case c;
};

constexpr double kSinglePrecision = 1e-6;  // of the peers' sines and probabilities

TEST(ModelOracle, Llama) {
  PERIGEE_ORACLE(a, "hf_llama");
  ModelOfFile model("hf_llama", a, R"([{"type": "embedding", "name": "tokens", "size": 48, "out": 32},
    {"type": "transformer", "name": "t", "layers": 2, "heads": 4, "kv_heads": 2, "hidden": 64, "rms": true, "epsilon": 1e-6, "activation": "swish",
     "gated": true, "bias": false, "causal": true, "positions": "rotary"}, {"type": "dense", "name": "head", "out": 48, "over": "steps", "bias": false}])");
  model.take("tokens.weight", "model.embed_tokens.weight");
  model.take("t.norm_weight", "model.norm.weight");
  model.take("head.weight", "lm_head.weight");
  for (int i = 0; i < 2; ++i) {
    const std::string to = "t.block" + std::to_string(i + 1) + ".", from = "model.layers." + std::to_string(i) + ".";
    const auto attention = [&](const char* name) { return model.weight(from + "self_attn." + name + "_proj.weight"); };
    const Tensor q = attention("q"), k = attention("k"), v = attention("v"), parts[] = {part(q, 0, 2), part(q, 1, 2), k, v};
    model.c.parameters.push_back({to + "attention_in_weight", joined({&parts[0], &parts[1], &parts[2], &parts[3]})});
    model.take(to + "attention_out_weight", from + "self_attn.o_proj.weight");
    for (const char* name : {"gate", "up", "down"}) model.take(to + name + "_weight", from + "mlp." + name + "_proj.weight");
    model.take(to + "norm1_weight", from + "input_layernorm.weight");
    model.take(to + "norm2_weight", from + "post_attention_layernorm.weight");
  }
  model.check_logits(a, kSinglePrecision);
}

TEST(ModelOracle, GptJ) {
  PERIGEE_ORACLE(a, "hf_gptj");
  ModelOfFile model("hf_gptj", a, R"([{"type": "embedding", "name": "tokens", "size": 48, "out": 32},
    {"type": "transformer", "name": "t", "layers": 2, "heads": 4, "parallel": "one_norm", "causal": true, "positions": "rotary", "rotary_fraction": 0.5,
     "rotary_interleaved": true, "activation": {"type": "gelu", "approximate": "tanh"}}, {"type": "dense", "name": "head", "out": 48, "over": "steps"}])");
  model.take("tokens.weight", "transformer.wte.weight");
  model.take_both("t.norm", "transformer.ln_f");
  model.take("head.weight", "lm_head.weight");
  model.take("head.bias", "lm_head.bias");
  for (int i = 0; i < 2; ++i) {
    const std::string to = "t.block" + std::to_string(i + 1) + ".", from = "transformer.h." + std::to_string(i) + ".";
    const auto attention = [&](const char* name) { return &model.weight(from + "attn." + name + "_proj.weight"); };
    model.c.parameters.push_back({to + "attention_in_weight", joined({attention("q"), attention("k"), attention("v")})});
    model.take(to + "attention_out_weight", from + "attn.out_proj.weight");
    for (const auto& [name, size] : {std::pair{"in", 96}, {"out", 32}})
      model.c.parameters.push_back(
          {to + "attention_" + name + "_bias", Tensor::from(Shape{size}, std::vector<double>(static_cast<size_t>(size), 0.0))});
    model.take_both(to + "norm1", from + "ln_1");
    model.take_both(to + "up", from + "mlp.fc_in");
    model.take_both(to + "down", from + "mlp.fc_out");
  }
  model.check_logits(a, kSinglePrecision);
}

// Queries, keys and values of one head after another as all queries, all keys, all values.
Tensor parted_heads(const Tensor& x, int64_t heads) {
  const int64_t size = x.shape()[0] / (3 * heads), width = x.elements() / x.shape()[0];
  Tensor parted = x.to(Dtype::f64).clone();
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t p = 0; p < 3; ++p)
      std::copy_n(x.data<double>() + (h * 3 + p) * size * width, size * width, parted.data<double>() + (p * heads + h) * size * width);
  return parted;
}

TEST(ModelOracle, Bloom) {
  PERIGEE_ORACLE(a, "hf_bloom");
  ModelOfFile model(
      "hf_bloom", a,
      R"([{"type": "embedding", "name": "tokens", "size": 48, "out": 32}, {"type": "layernorm", "name": "first", "over": "channels"},
    {"type": "transformer", "name": "t", "layers": 2, "heads": 4, "causal": true, "positions": "alibi",
     "activation": {"type": "gelu", "approximate": "tanh"}}, {"type": "dense", "out": 48, "over": "steps", "tied": "tokens", "bias": false}])");
  model.take("tokens.weight", "transformer.word_embeddings.weight");
  model.take("first.weight", "transformer.word_embeddings_layernorm.weight");
  model.take("first.bias", "transformer.word_embeddings_layernorm.bias");
  model.take_both("t.norm", "transformer.ln_f");
  for (int i = 0; i < 2; ++i) {
    const std::string to = "t.block" + std::to_string(i + 1) + ".", from = "transformer.h." + std::to_string(i) + ".";
    for (const char* kind : {"weight", "bias"})
      model.c.parameters.push_back(
          {to + "attention_in_" + kind, parted_heads(model.weight(from + "self_attention.query_key_value." + kind), 4)});
    model.take_both(to + "attention_out", from + "self_attention.dense");
    model.take_both(to + "norm1", from + "input_layernorm");
    model.take_both(to + "norm2", from + "post_attention_layernorm");
    model.take_both(to + "up", from + "mlp.dense_h_to_4h");
    model.take_both(to + "down", from + "mlp.dense_4h_to_h");
  }
  model.check_logits(a, kSinglePrecision);
}

// Sums of both parts are normalised; a decoder looks at its memory between them.
TEST(ModelOracle, DecoderLayersArePyTorchs) {
  PERIGEE_ORACLE(a, "decoder_layer");
  Case c{
      .layers =
          R"({"type": "graph", "inputs": ["x", "memory"], "nodes": [{"name": "t", "layer": {"type": "transformer", "heads": 2, "hidden": 16, "norm": "post",
                "activation": "relu", "causal": true, "cross": true}, "inputs": ["x", "memory"]}], "outputs": ["t"]})"};
  c.inputs = {{"x", features_first(a.at("x"))}, {"memory", features_first(a.at("memory"))}};
  c.mask = inverted(a.at("memory_key_padding_mask"));
  const std::string p = "t.block1.";
  const std::pair<const char*, const char*> names[] = {{"attention_in_weight", "self_attn.in_proj_weight"},
                                                       {"attention_in_bias", "self_attn.in_proj_bias"},
                                                       {"attention_out_weight", "self_attn.out_proj.weight"},
                                                       {"attention_out_bias", "self_attn.out_proj.bias"},
                                                       {"cross_out_weight", "multihead_attn.out_proj.weight"},
                                                       {"cross_out_bias", "multihead_attn.out_proj.bias"},
                                                       {"up_weight", "linear1.weight"},
                                                       {"up_bias", "linear1.bias"},
                                                       {"down_weight", "linear2.weight"},
                                                       {"down_bias", "linear2.bias"},
                                                       {"norm1_weight", "norm1.weight"},
                                                       {"norm1_bias", "norm1.bias"},
                                                       {"cross_norm_weight", "norm2.weight"},
                                                       {"cross_norm_bias", "norm2.bias"},
                                                       {"norm2_weight", "norm3.weight"},
                                                       {"norm2_bias", "norm3.bias"}};
  for (const auto& [ours, theirs] : names) {
    c.parameters.push_back({p + ours, a.at(theirs)});
    c.gradients[p + ours] = a.at(std::string("d.") + theirs);
  }
  for (int64_t i = 0; i < 3; ++i)
    for (const char* kind : {"weight", "bias"}) {
      const std::string ours = p + "cross_" + "qkv"[i] + "_" + kind, theirs = std::string("multihead_attn.in_proj_") + kind;
      c.parameters.push_back({ours, part(a.at(theirs), i, 3)});
      c.gradients[ours] = part(a.at("d." + theirs), i, 3);
    }
  c.gradients["x"] = features_first(a.at("dx"));
  c.gradients["memory"] = features_first(a.at("dmemory"));
  c.y = features_first(a.at("y")), c.gy = features_first(a.at("gy"));
  check(c);
}

}  // namespace
}  // namespace perigee
