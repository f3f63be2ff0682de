#include "src/text/text_numbers.h"

#include "src/io/base64.h"
#include "src/io/codec/compress.h"

namespace perigee {
namespace {

std::string unpacked(const std::string& packed, const std::string& where) {
  const std::string bytes = from_base64(packed, where);
  return std::string(as_text(gunzip(as_bytes(bytes), where, Tokenizer::kMaxFile)));
}

}  // namespace

TextNumbers::TextNumbers(std::string_view file, const std::string& where)
    : tokenizer_(Tokenizer::read(file, where)), packed_(base64(as_text(gzip(as_bytes(file))))) {}

TextNumbers::TextNumbers(const Config& config) {
  if (!config.has("tokenizer")) {
    vocabulary_.emplace(config);
    return;
  }
  packed_ = config.string("tokenizer");
  const std::string where = config.where() + ": tokenizer";
  tokenizer_ = Tokenizer::read(unpacked(packed_, where), where);
}

Json TextNumbers::to_json() const {
  if (!tokenizer_) return vocabulary_->to_json();
  Json json = Json::object();
  json.set("unit", "token");
  json.set("tokenizer", packed_);
  return json;
}

std::vector<std::string> TextNumbers::names() const {
  if (!tokenizer_) return vocabulary_->names();
  std::vector<std::string> names;
  for (int64_t id = 0; id < size(); ++id) {
    const std::string* token = tokenizer_->token(id);
    names.push_back(token != nullptr ? *token : "<" + std::to_string(id) + ">");
  }
  return names;
}

int64_t TextNumbers::filler() const {
  int64_t filler = 0;
  for (const char* text : {" ", "\n"}) {
    if (tokenizer_) read(text, "blank", 0, false, [&](int64_t number) { filler = number; });
    else if (const int64_t number = vocabulary_->number(text); number >= 0 && number != unknown()) filler = number;
  }
  return filler;
}

void TextNumbers::read(std::string_view text, const std::string& where, uint64_t offset, bool refuse_unknown,
                       const std::function<void(int64_t)>& put) const {
  if (tokenizer_) {
    TokenCache cache;
    TokenEncoding encoding;
    tokenizer_->encode(text, where, false, encoding, &cache, offset);
    for (const int32_t id : encoding.ids) put(id);
    return;
  }
  UnitReader reader(text, vocabulary_->units(), where, offset);
  while (reader.next()) {
    const int64_t number = vocabulary_->number(reader.unit());
    if (number >= 0 && !(refuse_unknown && number == unknown())) {
      put(number);
      continue;
    }
    std::string known;
    for (size_t i = unknown() == 0 ? 1 : 0; refuse_unknown && i < vocabulary_->names().size() && known.size() < 200; ++i)
      known += (known.empty() ? "" : " ") + Json(vocabulary_->names()[i]).dump();
    throw Error(ErrorKind::data, {.where = reader.place(),
                                  .what = refuse_unknown ? "this is not in the model's vocabulary" : "this is not in the vocabulary",
                                  .got = Json(std::string(reader.unit())).dump(),
                                  .expected = known.empty() ? "" : "one of " + known + (known.size() < 200 ? "" : " ..."),
                                  .hint = refuse_unknown ? "" : "with unknown = true the vocabulary has a number for everything else"});
  }
}

std::string TextNumbers::piece(int64_t unit, std::string_view before) const {
  if (tokenizer_) return tokenizer_->piece(unit, before.empty());
  const std::string& name = vocabulary_->names().at(static_cast<size_t>(unit));
  if (!vocabulary_->units().words) return name;
  constexpr std::string_view kClosing = ".,;:!?)]}%", kOpening = "([{ \n";
  const bool closes = name.size() == 1 && kClosing.find(name[0]) != kClosing.npos;
  const bool opens = before.empty() || kOpening.find(before.back()) != kOpening.npos;
  return closes || opens ? name : " " + name;
}

}  // namespace perigee
