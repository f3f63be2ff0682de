// The part of each step's gradients that is sent, and how the workers' parts become one.
#include <algorithm>

#include "cluster/codec/codec.h"
#include "cluster/policy/policy_axes.h"

namespace perigee {
namespace {

std::vector<Option> gradient_options() {
  return {{"codec", "codec", "fp32", "how each worker's gradient is sent: a name, or a table with type and options"},
          {"merge",
           "name",
           "mean",
           "what is made of the workers' parts: their mean by examples, or with updates their sum",
           {},
           {"mean", "sum"}}};
}

const CodecDef* codec_of(const PolicyDef& def) {
  const Json* codec = def.defaults.find("codec");
  const Json* type = codec && codec->is_object() ? codec->find("type") : codec;
  for (const CodecDef* each : all_codecs())
    if (type && *type == Json(each->name)) return each;
  return nullptr;
}

bool adapts(const CodecDef& codec) { return codec.schema.find("adapt") != nullptr; }

// The codec that the policy has, or that the job gives, with those of its options that are given beside it.
Json described_codec(const Config& config, const PolicyDef& def) {
  const Json* given = config.raw("codec");
  if (given == nullptr || given->is_null()) return {};
  const CodecDef* own = codec_of(def);
  if (own == nullptr) return *given;
  Json codec = given->is_object() ? *given : Json(Json::Object{{"type", *given}});
  for (const Option& option : own->schema.options)
    if (const Json* value = config.raw(option.name)) codec.set(option.name, *value);
  if (adapts(*own) && config.has("adaptive")) codec.set("adapt", config.boolean("adaptive", false) ? "range" : "none");
  return codec;
}

void read_gradient(const Config& config, const PolicyDef& def, Policy* policy) {
  policy->sums = config.choice("merge") == "sum";
  if (policy->sums && policy->what == Policy::What::gradient)
    config.fail("merge", "adds up what optimisers made of gradients, not gradients", "sum", "mean", "raise the learning rate instead");
  const Json described = described_codec(config, def);
  if (described.is_null()) return;
  const std::unique_ptr<Codec> codec = make_codec(&described, config.where());
  if (codec->to_json() == make_codec(nullptr, "")->to_json()) return;  // sums of float32
  policy->codec = codec->to_json();
  if (config.integer_in("shards", 0, 1024, 0) > 0)
    config.fail("codec", "is given together with 'shards'", codec->def().name, "one of them",
                "each worker's codec has a memory of its own, so the sum depends on who computes which part");
}

void write_gradient(const Policy& policy, Json* json) {
  if (policy.what == Policy::What::parameters) return;
  if (policy.coded()) json->set("codec", policy.codec);
  if (policy.what == Policy::What::update) json->set("merge", policy.sums ? "sum" : "mean");
}

void describe_gradient(const Policy& policy, Json* told) { told->set("merge", policy.sums ? "added up" : "merged by examples"); }

}  // namespace

// A policy with a codec of its own takes that codec's options as its own: pg.averaging.threshold { tau = 1e-3 }.
std::vector<Option> codec_options_of(const PolicyDef& def) {
  std::vector<Option> options;
  const CodecDef* codec = def.what == Policy::What::parameters ? nullptr : codec_of(def);
  if (codec == nullptr) return options;
  const Json* own = def.defaults.find("codec");
  for (Option option : codec->schema.options) {
    const Json* value = own->is_object() ? own->find(option.name) : nullptr;
    if (value != nullptr) option.fallback = kept_text(value->is_string() ? value->as_string() : value->dump());
    options.push_back(option);
  }
  if (adapts(*codec)) options.push_back({"adaptive", "boolean", "", "true: adapt = \"range\"; false: adapt = \"none\""});
  return options;
}

extern const PolicyAxis gradient_axis;
const PolicyAxis gradient_axis = {.applies = [](const PolicyDef& def) { return def.what != Policy::What::parameters; },
                                  .options = gradient_options,
                                  .read = read_gradient,
                                  .write = write_gradient,
                                  .describe = describe_gradient};

}  // namespace perigee
