// {"type": "masked_lm", "source": {...}}: the tokens of another source, some of them hidden, and what they were as the target: the masked
// language model of Devlin et al., "BERT: pre-training of deep bidirectional transformers", 2019. Of the positions that are chosen 80 % show the
// mask, 10 % any token, 10 % what they were; the target is -1 wherever nothing was chosen.
#include <algorithm>
#include <cstring>
#include <optional>

#include "src/data/sound/rated.h"
#include "src/data/streams.h"
#include "src/data/transform.h"
#include "src/text/text_numbers.h"

namespace perigee {
namespace {

constexpr uint64_t kMaskedLmSalt = 0x6d61736b6c6dull;
constexpr int64_t kMostTokens = 1 << 24;

// The numbering of the texts inside: an object that TextNumbers reads; null when they are none.
const Json* text_fitted(const Json& fitted) {
  for (const Json* at = &fitted; at != nullptr && at->is_object(); at = at->find("source")) {
    const Json* type = at->find("type");
    if (type != nullptr && (*type == Json("text") || *type == Json("documents"))) return at;
  }
  return nullptr;
}

class MaskedTokens final : public DataSource, public StreamedSource {
 public:
  MaskedTokens(SourcePtr inner, const Config& config)
      : inner_(std::move(inner)),
        share_(static_cast<float>(config.number("share"))),
        masked_(static_cast<float>(config.number("masked"))),
        random_(static_cast<float>(config.number("random"))),
        fresh_(config.boolean("fresh")) {
    if (masked_ + random_ > 1.00001f)
      config.fail("random", "and 'masked' are more than the whole", Json(masked_ + random_).dump(), "a sum of at most 1");
    const std::string name = config.string("field"), target = config.string("target");
    if (name == target) config.fail("target", "is the field itself", "'" + target + "'", "the name of another field");
    const auto& fields = inner_->fields();
    field_ = field_index(*inner_, name, config.where());
    const Field& tokens = fields[field_];
    if (tokens.dtype != Dtype::i64 || tokens.shape.rank() != 1)
      config.fail("field", "has no tokens", Type{tokens.dtype, tokens.shape}.text(),
                  "i64 numbers of a text: pg.data.text, pg.data.documents");
    lengths_ = lengths_of(fields, name);
    for (size_t f = 0; f < fields.size(); ++f)
      if (fields[f].name != target) fields_.push_back(fields[f]), from_.push_back(f);
    scratch_bytes_ = 0;
    for (const Field& field : fields) scratch_bytes_ += padded(field);
    fields_.push_back({.name = target, .dtype = Dtype::i64, .shape = tokens.shape});
    find_numbers(config);
  }

  int64_t size() const override { return inner_->size(); }
  int64_t streams() const override { return streams_of(*inner_); }
  const std::vector<Field>& fields() const override { return fields_; }
  void expect(std::span<const ReadKey> keys) const override { inner_->expect(keys); }

  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    const Scratch scratch(scratch_bytes_);
    std::byte* all[kMaxFields];
    std::byte* free = scratch.data();
    const auto& fields = inner_->fields();
    for (size_t f = 0; f < fields.size(); ++f) all[f] = free, free += padded(fields[f]);
    for (size_t i = 0; i < from_.size(); ++i) all[from_[i]] = slots[i];
    inner_->read(key, {all, fields.size()});
    int64_t there = fields[field_].shape[0];
    if (lengths_ >= 0) {
      int64_t counted = 0;
      std::memcpy(&counted, all[lengths_], sizeof counted);
      there = std::clamp<int64_t>(counted, 0, there);
    }
    hide({.index = key.index, .epoch = fresh_ ? key.epoch : 0, .seed = key.seed}, reinterpret_cast<int64_t*>(all[field_]),
         reinterpret_cast<int64_t*>(slots.back()), there);
  }

  SourceTraits traits() const override {
    SourceTraits traits = inner_->traits();
    traits.description += ", masked";
    traits.fixed = traits.fixed && !fresh_;
    traits.cheap = traits.touches = false;
    return traits;
  }

  static constexpr size_t kMaxFields = 64;

 private:
  static size_t padded(const Field& field) {
    return (static_cast<size_t>(field.shape.elements()) * dtype_bytes(field.dtype) + 63) / 64 * 64;
  }

  // How many tokens there are, which one is the mask, and which are never hidden.
  void find_numbers(const Config& config) {
    std::optional<TextNumbers> numbers;
    const Json fitted = inner_->traits().fitted;
    if (const Json* text = text_fitted(fitted)) numbers.emplace(Config(*text, config.where(), ErrorKind::data));
    if (!numbers && !config.has("vocabulary"))
      config.fail("vocabulary", "is missing", "", "how many tokens there are, since the source inside is no text that says it");
    tokens_ = config.has("vocabulary") ? config.integer_in("vocabulary", 1, kMostTokens) : numbers->size();
    const TokenizerPtr tokenizer = numbers ? numbers->tokenizer() : TokenizerPtr();
    if (tokenizer)
      for (int64_t id = 0; id < tokens_; ++id)
        if (tokenizer->is_special(id)) kept_.push_back(id);
    mask_ = tokens_;
    for (const char* name : {"<mask>", "[MASK]"})
      if (tokenizer && tokenizer->id(name) >= 0) mask_ = tokenizer->id(name);
    if (config.has("mask")) mask_ = config.integer_in("mask", 0, kMostTokens);
    for (const int64_t id : config.integer_list("keep")) kept_.push_back(id);
    std::sort(kept_.begin(), kept_.end());
  }

  void hide(const ReadKey& key, int64_t* tokens, int64_t* targets, int64_t there) const {
    Draw draw(key, kMaskedLmSalt);
    const int64_t length = inner_->fields()[field_].shape[0];
    for (int64_t i = 0; i < length; ++i) {
      targets[i] = -1;
      if (i >= there || draw.uniform() >= share_ || std::binary_search(kept_.begin(), kept_.end(), tokens[i])) continue;
      targets[i] = tokens[i];
      const float what = draw.uniform();
      if (what < masked_) tokens[i] = mask_;
      else if (what < masked_ + random_) tokens[i] = draw.integer(tokens_);
    }
  }

  SourcePtr inner_;
  std::vector<Field> fields_;
  std::vector<size_t> from_;  // of each field but the target, its number inside
  size_t field_ = 0, scratch_bytes_ = 0;
  int64_t lengths_ = -1, tokens_ = 0, mask_ = 0;
  std::vector<int64_t> kept_;  // never hidden; sorted
  float share_, masked_, random_;
  bool fresh_;
};

SourcePtr open_masked_lm(const Config& config, const std::string& folder) {
  const SourcePtr inner = open_source(config.object("source"), folder);
  if (inner->fields().size() >= MaskedTokens::kMaxFields)
    config.fail("source", "has too many fields", std::to_string(inner->fields().size()), "fewer than 64");
  return std::make_shared<MaskedTokens>(inner, config);
}

constexpr const char* kMaskedLmPositional[] = {"source"};
constexpr Option kMaskedLmOptions[] = {
    {"source", "source", nullptr, "where the tokens come from"},
    {"share", "number", "0.15", "of the tokens that are chosen", {0, 1}},
    {"masked", "number", "0.8", "share of the chosen that show the mask", {0, 1}},
    {"random", "number", "0.1", "share of the chosen that show any token; the others stay as they are", {0, 1}},
    {"mask", "integer", "the tokenizer's [MASK] or <mask>, else one past the last", "the number of the mask", {0, kMostTokens}},
    {"vocabulary", "integer", "the text's", "how many tokens there are to draw from", {1, kMostTokens}},
    {"keep", "list of integers", "the tokenizer's special tokens", "tokens that are never chosen, beside the tokenizer's special ones"},
    {"field", "string", "x", "the tokens"},
    {"target", "string", "y", "what they were, -1 where nothing was chosen; a field of this name inside is left out"},
    {"fresh", "boolean", "true", "other tokens are chosen in every epoch"}};

}  // namespace

extern const SourceDef source_masked_lm;
const SourceDef source_masked_lm{.type = "masked_lm",
                                 .doc =
                                     "The tokens of 'source', 15 % of them chosen: 80 % of these show the mask, 10 % any token, 10 % "
                                     "themselves (BERT). The target has what "
                                     "the chosen were and -1 elsewhere: for pg.loss.cross_entropy { ignore = -1 }. Options: share, masked, "
                                     "random, mask, vocabulary, keep, "
                                     "field (x), target (y), fresh (true)",
                                 .schema = {.options = kMaskedLmOptions, .positional = kMaskedLmPositional},
                                 .open = open_masked_lm,
                                 .wraps = true};

}  // namespace perigee
