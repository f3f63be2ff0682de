#include "src/text/token_decoder.h"

#include <algorithm>

#include "src/core/replace_all.h"
#include "src/core/utf8.h"
#include "src/text/normalizers.h"
#include "src/text/pattern_match.h"

namespace perigee {
namespace {

using Tokens = std::vector<std::string>;

void clean_up(std::string& text) {
  constexpr std::string_view kPairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                            {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                            {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, with] : kPairs) replace_all(text, what, with);
}

void word_pieces(Tokens& tokens, const std::string& prefix, bool clean) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && tokens[i].starts_with(prefix)) tokens[i].erase(0, prefix.size());
    else if (i > 0) tokens[i].insert(0, " ");
    if (clean) clean_up(tokens[i]);
  }
}

void from_byte_characters(Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) {
    const size_t before = bytes.size();
    for (size_t i = 0; i < token.size();) {
      const int byte = character_byte(next_character(token, i));
      if (byte < 0) {
        bytes.replace(before, bytes.npos, token);
        break;
      }
      bytes += static_cast<char>(byte);
    }
  }
  tokens = {readable(bytes, false)};
}

void byte_fallback(Tokens& tokens) {
  Tokens out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    bool valid = true;
    for (size_t i = 0, length = 0; valid && i < bytes.size(); i += length) valid = (length = utf8_length(bytes, i)) > 0;
    if (valid) out.push_back(bytes);
    else out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
    bytes.clear();
  };
  for (std::string& token : tokens) {
    const int byte = byte_of_token(token);
    if (byte < 0) flush(), out.push_back(std::move(token));
    else bytes += static_cast<char>(byte);
  }
  flush();
  tokens = std::move(out);
}

void strip_token_decoder(Tokens& tokens, const std::string& content, int64_t start, int64_t stop) {
  for (std::string& token : tokens) {
    for (int64_t i = 0; i < start && token.starts_with(content); ++i) token.erase(0, content.size());
    for (int64_t i = 0; i < stop && token.ends_with(content); ++i) token.erase(token.size() - content.size());
  }
}

void metaspace(Tokens& tokens, const std::string& mark, bool prepended) {
  for (size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], mark, i == 0 && prepended ? "" : " ");
}

void ctc(Tokens& tokens, const std::string& pad, const std::string& delimiter, bool clean) {
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (std::string& token : tokens) {
    replace_all(token, pad, "");
    if (clean) clean_up(token), replace_all(token, delimiter, " ");
  }
  std::erase(tokens, std::string());
}

void read_token_decoder_into(TokenDecoder& steps, const Config& config, int depth) {
  const std::string type = config.string("type");
  if (type == "Sequence") {
    const Json* list = config.raw("decoders");
    if (list == nullptr || !list->is_array() || depth > 8) config.fail("decoders", "must be a list, nested no more than 8 times");
    for (const Json& item : list->as_array()) read_token_decoder_into(steps, config.element(item, "decoders"), depth + 1);
  } else if (type == "ByteLevel") {
    steps.push_back(from_byte_characters);
  } else if (type == "WordPiece") {
    steps.push_back([prefix = config.string("prefix", "##"), clean = config.boolean("cleanup", true)](Tokens& tokens) {
      word_pieces(tokens, prefix, clean);
    });
  } else if (type == "Metaspace") {
    const bool prepended = config.string("prepend_scheme", config.boolean("add_prefix_space", true) ? "always" : "never") != "never";
    steps.push_back([mark = config.string("replacement"), prepended](Tokens& tokens) { metaspace(tokens, mark, prepended); });
  } else if (type == "BPEDecoder") {
    steps.push_back([suffix = config.string("suffix", "</w>")](Tokens& tokens) {
      for (size_t i = 0; i < tokens.size(); ++i) replace_all(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
    });
  } else if (type == "ByteFallback") {
    steps.push_back(byte_fallback);
  } else if (type == "Fuse") {
    steps.push_back([](Tokens& tokens) {
      std::string all;
      for (const std::string& token : tokens) all += token;
      tokens = {all};
    });
  } else if (type == "Strip") {
    steps.push_back(
        [content = config.string("content"), start = config.integer_in("start", 0, 1 << 20, 0),
         stop = config.integer_in("stop", 0, 1 << 20, 0)](Tokens& tokens) { strip_token_decoder(tokens, content, start, stop); });
  } else if (type == "Replace") {
    steps.push_back([pattern = TextPattern(config.object("pattern")), content = config.string("content")](Tokens& tokens) {
      for (std::string& token : tokens) {
        Aligned text(token, 0);
        text.replace(pattern.matches(token), content);
        token = text.text();
      }
    });
  } else if (type == "CTC") {
    steps.push_back([pad = config.string("pad_token"), delimiter = config.string("word_delimiter_token"),
                     clean = config.boolean("cleanup", true)](Tokens& tokens) { ctc(tokens, pad, delimiter, clean); });
  } else {
    config.fail("type", "is not a decoder that can be read", Json(type).dump(),
                "BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, Metaspace, Replace, Sequence, Strip or WordPiece");
  }
}

}  // namespace

TokenDecoder read_decoder(const Json* description, const std::string& where) {
  TokenDecoder steps;
  if (description != nullptr && !description->is_null()) {
    read_token_decoder_into(steps, Config(*description, where + ": decoder", ErrorKind::data), 0);
  } else {
    steps.push_back([](Tokens& tokens) {
      for (size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, " ");
    });
  }
  return steps;
}

std::string readable(std::string_view bytes, bool each_byte) {
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    size_t length = utf8_length(bytes, i);
    if (length > 0) {
      text.append(bytes.substr(i, length));
      i += length;
      continue;
    }
    // As much of a character as was begun rightly counts as one (Unicode's "maximal subpart"): a byte more fits while some end makes it valid.
    const auto begins = [&](size_t count) {
      for (const char* end : {"\x80\x80\x80", "\xBF\xBF\xBF"}) {
        const std::string whole = std::string(bytes.substr(i, count)) + end;
        if (utf8_length(whole, 0) > count) return true;
      }
      return false;
    };
    for (length = 1; !each_byte && i + length < bytes.size() && begins(length + 1);) ++length;
    text += "\xEF\xBF\xBD";
    i += length;
  }
  return text;
}

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    if (c >= '0' && c <= '9') value = value * 16 + c - '0';
    else if (c >= 'A' && c <= 'F') value = value * 16 + c - 'A' + 10;
    else if (c >= 'a' && c <= 'f') value = value * 16 + c - 'a' + 10;
    else return -1;
  }
  return value;
}

}  // namespace perigee
