// Reads tokenizer.json of Hugging Face's tokenizers.
#include <cmath>
#include <limits>

#include "src/text/tokenizer.h"

namespace perigee {
namespace {

constexpr size_t kMaxValues = 8'000'000;

const Json& member(const Config& config, const char* key) {
  const Json* found = config.raw(key);
  if (found == nullptr || found->is_null()) config.fail(key, "is missing");
  return *found;
}

// A token's name that may be null or absent.
std::string name_or_empty(const Config& config, const char* key) {
  const Json* found = config.raw(key);
  return found == nullptr || found->is_null() ? std::string() : config.string(key);
}

class TokenizerJsonReader {
 public:
  TokenizerJsonReader(const Json& file, const std::string& where) : file_(file, where, ErrorKind::data), where_(where) {}

  std::unique_ptr<TokenizerParts> read() {
    parts_ = std::make_unique<TokenizerParts>();
    model(file_.object("model"));
    parts_->normalizer = read_normalizer(file_.raw("normalizer"), where_);
    parts_->pre_tokenizer = read_pre_tokenizer(file_.raw("pre_tokenizer"), where_);
    parts_->decoder = read_decoder(file_.raw("decoder"), where_);
    if (given("decoder")) parts_->byte_level = file_.object("decoder").string("type") == "ByteLevel";
    added();
    if (given("post_processor")) post_processor(file_.object("post_processor"), 0);
    if (given("truncation")) truncation(file_.object("truncation"));
    if (given("padding")) padding(file_.object("padding"));
    return std::move(parts_);
  }

 private:
  bool given(const char* key) const {
    const Json* found = file_.raw(key);
    return found != nullptr && !found->is_null();
  }

  static std::string type_of(const Config& config) {
    if (config.has("type")) return config.string("type");
    if (config.has("merges")) return "BPE";
    if (config.has("max_input_chars_per_word")) return "WordPiece";
    const Json* vocabulary = config.raw("vocab");
    return vocabulary != nullptr && vocabulary->is_array() ? "Unigram" : "WordLevel";
  }

  void model(const Config& config) {
    const std::string type = type_of(config);
    if (type == "Unigram") return unigram(config);
    if (type != "BPE" && type != "WordPiece" && type != "WordLevel")
      config.fail("type", "is not a model that can be read", Json(type).dump(), "BPE, Unigram, WordLevel or WordPiece");
    const Json& vocabulary = member(config, "vocab");
    if (!vocabulary.is_object()) config.fail("vocab", "must be a table of tokens and their numbers", vocabulary.type_name());
    std::vector<std::pair<std::string, int64_t>> tokens;
    for (const auto& [token, id] : vocabulary.as_object()) {
      if (!id.is_int()) config.fail("vocab", "has a token whose number is none", Json(token.substr(0, 80)).dump());
      tokens.emplace_back(token, id.as_int());
    }
    parts_->table.assign(std::move(tokens), config.where());
    const std::string unknown = name_or_empty(config, "unk_token");
    const int32_t unknown_id = unknown.empty() ? -1 : parts_->table.id(unknown);
    if (!unknown.empty() && unknown_id < 0) config.fail("unk_token", "is not in the vocabulary", Json(unknown).dump());
    if (type == "WordLevel") parts_->model = word_model(parts_->table, unknown_id);
    else if (type == "WordPiece")
      parts_->model = word_piece_model(parts_->table, unknown_id, config.string("continuing_subword_prefix", "##"),
                                       config.integer_in("max_input_chars_per_word", 1, 1 << 20, 100));
    else pairs(config, unknown_id);
  }

  void pairs(const Config& config, int32_t unknown) {
    PairOptions options{.unknown = unknown,
                        .prefix = name_or_empty(config, "continuing_subword_prefix"),
                        .suffix = name_or_empty(config, "end_of_word_suffix"),
                        .fuse_unknown = config.boolean("fuse_unk", false),
                        .byte_fallback = config.boolean("byte_fallback", false),
                        .whole_words = config.boolean("ignore_merges", false)};
    if (const Json* dropout = config.raw("dropout"); dropout != nullptr && !dropout->is_null() && config.number("dropout") > 0)
      config.fail("dropout", "would leave out merges at random, so that a text has no one answer", dropout->dump(), "null");
    const Json& list = member(config, "merges");
    if (!list.is_array()) config.fail("merges", "must be a list", list.type_name());
    std::vector<PairMerge> merges;
    for (const Json& merge : list.as_array()) {
      std::string left, right;
      if (merge.is_string()) {
        const size_t space = merge.as_string().find(' ');
        left = merge.as_string().substr(0, space);
        if (space != std::string::npos) right = merge.as_string().substr(space + 1);
      } else if (merge.is_array() && merge.as_array().size() == 2 && merge.as_array()[0].is_string() && merge.as_array()[1].is_string()) {
        left = merge.as_array()[0].as_string(), right = merge.as_array()[1].as_string();
      }
      const size_t skip = right.starts_with(options.prefix) ? options.prefix.size() : 0;
      const PairMerge ids{parts_->table.id(left), parts_->table.id(right), parts_->table.id(left + right.substr(skip))};
      if (left.empty() || right.empty() || ids.left < 0 || ids.right < 0 || ids.joined < 0)
        config.fail("merges", "has one that does not join two tokens to a third", merge.dump().substr(0, 200));
      merges.push_back(ids);
    }
    parts_->model = pair_model(parts_->table, merges, std::move(options));
  }

  void unigram(const Config& config) {
    const Json& list = member(config, "vocab");
    if (!list.is_array()) config.fail("vocab", "must be a list of tokens and their scores", list.type_name());
    std::vector<std::pair<std::string, int64_t>> tokens;
    std::vector<double> scores;
    double least = std::numeric_limits<double>::infinity();
    for (const Json& item : list.as_array()) {
      if (!item.is_array() || item.as_array().size() != 2 || !item.as_array()[0].is_string() || !item.as_array()[1].is_number())
        config.fail("vocab", "has an entry that is no token and its score", item.dump().substr(0, 200));
      tokens.emplace_back(item.as_array()[0].as_string(), static_cast<int64_t>(scores.size()));
      scores.push_back(item.as_array()[1].as_number());
      least = std::min(least, scores.back());
    }
    const auto count = static_cast<int64_t>(scores.size());
    parts_->table.assign(std::move(tokens), config.where());
    UnigramOptions options{.byte_fallback = config.boolean("byte_fallback", false), .unknown_score = least - 10};
    if (const Json* unknown = config.raw("unk_id"); unknown != nullptr && !unknown->is_null())
      options.unknown = static_cast<int32_t>(config.integer_in("unk_id", 0, count - 1));
    parts_->model = unigram_model(parts_->table, scores, options);
  }

  void added() {
    const Json* list = file_.raw("added_tokens");
    if (list == nullptr || list->is_null()) return;
    if (!list->is_array()) file_.fail("added_tokens", "must be a list", list->type_name());
    for (const Json& item : list->as_array()) {
      const Config config = file_.element(item, "added_tokens");
      AddedToken token{.content = config.string("content"),
                       .id = static_cast<int32_t>(config.integer_in("id", 0, TokenTable::kMaxTokens - 1)),
                       .single_word = config.boolean("single_word", false),
                       .strip_left = config.boolean("lstrip", false),
                       .strip_right = config.boolean("rstrip", false),
                       .normalized = config.boolean("normalized", true),
                       .special = config.boolean("special", false)};
      if (const int32_t id = parts_->table.id(token.content); id >= 0) token.id = id;
      if (!token.content.empty()) parts_->added.push_back(std::move(token));
    }
  }

  void post_processor(const Config& config, int depth) {
    const std::string type = config.string("type");
    if (type == "Sequence") {
      const Json& list = member(config, "processors");
      if (!list.is_array() || depth > 8) config.fail("processors", "must be a list, nested no more than 8 times");
      for (const Json& item : list.as_array()) post_processor(config.element(item, "processors"), depth + 1);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      parts_->before = {special(config, "cls")}, parts_->after = {special(config, "sep")};
      if (type == "RobertaProcessing") trim(config);
    } else if (type == "ByteLevel") {
      trim(config);
    } else if (type == "TemplateProcessing") {
      pattern(config);
    } else {
      config.fail("type", "is not a post-processor that can be read", Json(type).dump(),
                  "BertProcessing, ByteLevel, RobertaProcessing, Sequence or TemplateProcessing");
    }
  }

  void trim(const Config& config) {
    parts_->trim = config.boolean("trim_offsets", true);
    parts_->trim_keeps_one = config.boolean("add_prefix_space", true);
  }

  // ["[CLS]", 101]
  static int32_t special(const Config& config, const char* key) {
    const Json& pair = member(config, key);
    if (!pair.is_array() || pair.as_array().size() != 2 || !pair.as_array()[1].is_int())
      config.fail(key, "must be a token and its number", pair.dump());
    return checked(config, key, pair.as_array()[1]);
  }

  static int32_t checked(const Config& config, const char* key, const Json& id) {
    if (!id.is_int() || id.as_int() < 0 || id.as_int() >= TokenTable::kMaxTokens)
      config.fail(key, "has a number that no token has", id.dump(), "0 to " + std::to_string(TokenTable::kMaxTokens - 1));
    return static_cast<int32_t>(id.as_int());
  }

  void pattern(const Config& config) {
    const Json& list = member(config, "single");
    const Config specials = config.object("special_tokens");
    if (!list.is_array()) config.fail("single", "must be a list", list.type_name());
    bool seen = false;
    for (const Json& item : list.as_array()) {
      const Config piece = config.element(item, "single");
      if (piece.has("Sequence")) {
        if (seen) config.fail("single", "has the text twice");
        seen = true;
        continue;
      }
      const std::string name = piece.object("SpecialToken").string("id");
      const Json& ids = member(specials.object(name), "ids");
      if (!ids.is_array()) config.fail("special_tokens", "must give each token its numbers", Json(name).dump());
      for (const Json& id : ids.as_array()) (seen ? parts_->after : parts_->before).push_back(checked(config, "special_tokens", id));
    }
  }

  void truncation(const Config& config) {
    parts_->max_length = config.integer_in("max_length", 1, int64_t{1} << 31);
    parts_->truncate_left = config.choice("direction", "Right", {"Right", "Left"}) == "Left";
  }

  void padding(const Config& config) {
    const Json& strategy = member(config, "strategy");
    if (strategy.is_object()) parts_->pad_length = config.object("strategy").integer_in("Fixed", 0, 1 << 24);
    if (const Json* multiple = config.raw("pad_to_multiple_of"); multiple != nullptr && !multiple->is_null())
      parts_->pad_multiple = config.integer_in("pad_to_multiple_of", 0, 1 << 24);
    parts_->pad_left = config.choice("direction", "Right", {"Right", "Left"}) == "Left";
    parts_->pad_id = checked(config, "pad_id", member(config, "pad_id"));
  }

  Config file_;
  std::string where_;
  std::unique_ptr<TokenizerParts> parts_;
};

}  // namespace

std::unique_ptr<TokenizerParts> read_tokenizer_json(std::string_view file, const std::string& where) {
  Json json;
  try {
    json = Json::parse(file, where, kMaxValues);
  } catch (const Error& error) {
    throw Error(ErrorKind::data, error.parts());
  }
  return TokenizerJsonReader(json, where).read();
}

}  // namespace perigee
