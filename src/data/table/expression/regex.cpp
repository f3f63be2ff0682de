#include "src/data/table/expression/regex.h"

#include <cstdint>

#include "src/core/error.h"
#include "src/io/module.h"

namespace perigee::tables {
namespace {

// The part of pcre2.h that is used here; its numbers are part of the library's ABI.
constexpr uint32_t kUtf = 0x00080000, kNoUtfCheck = 0x40000000, kAnchored = 0x80000000, kEndAnchored = 0x20000000;
constexpr uint32_t kGroupCount = 4, kNameCount = 17, kNameEntrySize = 18, kNameTable = 19;
constexpr int kNoMatch = -1;
constexpr uint32_t kMostRegexSteps = 1'000'000;

struct Library {
  Module module{{"libpcre2-8.so.0", "libpcre2-8.0.dylib"}, "regular expressions", "libpcre2-8-0"};
  void* (*compile)(const char*, size_t, uint32_t, int*, size_t*, void*) = nullptr;
  int (*jit)(void*, uint32_t) = nullptr;
  int (*match)(const void*, const char*, size_t, size_t, uint32_t, void*, void*) = nullptr;
  void* (*match_data)(const void*, void*) = nullptr;
  size_t* (*ovector)(void*) = nullptr;
  void* (*context)(void*) = nullptr;
  int (*set_limit)(void*, uint32_t) = nullptr;
  int (*message)(int, char*, size_t) = nullptr;
  int (*info)(const void*, uint32_t, void*) = nullptr;
  void (*free_code)(void*) = nullptr;
  void (*free_data)(void*) = nullptr;
  void (*free_context)(void*) = nullptr;
  Library() {
    module.symbol("pcre2_compile_8", compile);
    module.symbol("pcre2_jit_compile_8", jit);
    module.symbol("pcre2_match_8", match);
    module.symbol("pcre2_match_data_create_from_pattern_8", match_data);
    module.symbol("pcre2_get_ovector_pointer_8", ovector);
    module.symbol("pcre2_match_context_create_8", context);
    module.symbol("pcre2_set_match_limit_8", set_limit);
    module.symbol("pcre2_get_error_message_8", message);
    module.symbol("pcre2_pattern_info_8", info);
    module.symbol("pcre2_code_free_8", free_code);
    module.symbol("pcre2_match_data_free_8", free_data);
    module.symbol("pcre2_match_context_free_8", free_context);
  }
};

const Library& library() {
  static const Library loaded;
  return loaded;
}

std::string message_of(int code) {
  char text[200] = "";
  library().message(code, text, sizeof text);
  return text;
}

}  // namespace

struct Regex::State {
  std::string pattern, where;
  void *code = nullptr, *data = nullptr, *context = nullptr;
  ~State() {
    if (code == nullptr) return;
    library().free_data(data);
    library().free_context(context);
    library().free_code(code);
  }

  // The number of groups, and 0 where nothing matches.
  int match(std::string_view text, size_t from, uint32_t options) const {
    const int count = library().match(code, text.data(), text.size(), from, options, data, context);
    if (count == kNoMatch) return 0;
    if (count > 0) return count;
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the pattern cannot be matched with a value (" + message_of(count) + ")",
                                  .got = "'" + pattern.substr(0, 60) + "' on '" + std::string(text.substr(0, 40)) + "'",
                                  .hint = "text is UTF-8, and nested repetitions such as (a*)* take very long"});
  }
};

Regex::Regex(const std::string& pattern, const std::string& where) : state_(std::make_unique<State>()) {
  const Library& lib = library();
  int code = 0;
  size_t offset = 0;
  state_->pattern = pattern;
  state_->where = where;
  state_->code = lib.compile(pattern.data(), pattern.size(), kUtf, &code, &offset, nullptr);
  if (state_->code == nullptr)
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the pattern is no regular expression: " + message_of(code),
                                  .got = "'" + pattern.substr(0, 60) + "', character " + std::to_string(offset + 1)});
  lib.jit(state_->code, 1);  // where it can: else the interpreter matches
  state_->data = lib.match_data(state_->code, nullptr);
  state_->context = lib.context(nullptr);
  lib.set_limit(state_->context, kMostRegexSteps);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

bool Regex::found_in(std::string_view text) const { return state_->match(text, 0, 0) > 0; }
bool Regex::is_all_of(std::string_view text) const { return state_->match(text, 0, kAnchored | kEndAnchored) > 0; }

bool Regex::groups_of(std::string_view text, std::vector<std::string_view>& groups) const {
  const int count = state_->match(text, 0, kAnchored | kEndAnchored);
  if (count == 0) return false;
  uint32_t all = 0;
  library().info(state_->code, kGroupCount, &all);
  groups.assign(all, {});
  const size_t* ends = library().ovector(state_->data);
  for (size_t g = 1; g < static_cast<size_t>(count); ++g)
    if (ends[2 * g] != SIZE_MAX && ends[2 * g] <= ends[2 * g + 1]) groups[g - 1] = text.substr(ends[2 * g], ends[2 * g + 1] - ends[2 * g]);
  return true;
}

std::vector<std::string> Regex::group_names() const {
  uint32_t groups = 0, count = 0, size = 0;
  const char* table = nullptr;
  library().info(state_->code, kGroupCount, &groups);
  library().info(state_->code, kNameCount, &count);
  library().info(state_->code, kNameEntrySize, &size);
  library().info(state_->code, kNameTable, &table);
  std::vector<std::string> names(groups);
  for (uint32_t i = 0; i < count; ++i, table += size) {  // two bytes of the number, the name, a zero
    const size_t number = static_cast<size_t>(static_cast<uint8_t>(table[0])) << 8 | static_cast<uint8_t>(table[1]);
    if (number >= 1 && number <= names.size()) names[number - 1] = table + 2;
  }
  return names;
}

std::string Regex::replaced(std::string_view text, std::string_view with) const {
  std::string out;
  size_t at = 0;
  while (at <= text.size()) {
    const int groups = state_->match(text, at, at == 0 ? 0 : kNoUtfCheck);
    if (groups == 0) break;
    const size_t* ends = library().ovector(state_->data);
    out += text.substr(at, ends[0] - at);
    for (size_t i = 0; i < with.size(); ++i) {
      const bool special = with[i] == '$' && i + 1 < with.size();
      if (special && with[i + 1] >= '0' && with[i + 1] <= '9') {
        const auto group = static_cast<size_t>(with[++i] - '0');
        if (group < static_cast<size_t>(groups) && ends[2 * group] != SIZE_MAX)
          out += text.substr(ends[2 * group], ends[2 * group + 1] - ends[2 * group]);
      } else {
        if (special && with[i + 1] == '$') ++i;
        out += with[i];
      }
    }
    at = ends[1];
    if (ends[0] != ends[1]) continue;
    // Nothing was matched: one character goes on, so that the next search is another one.
    if (at < text.size()) out += text[at];
    for (++at; at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; ++at) out += text[at];
  }
  if (at < text.size()) out += text.substr(at);
  return out;
}

}  // namespace perigee::tables
