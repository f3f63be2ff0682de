// Tokenizers for Lua: what lua/perigee/text/tokenizer.lua calls.
#include "src/text/tokenizer.h"

#include "lua/object.h"
#include "lua/tensor.h"
#include "src/core/utf8.h"
#include "src/io/codec/compress.h"
#include "src/text/sentences.h"
#include "src/text/train_tokenizer.h"

namespace perigee {
namespace {

constexpr char kTokenizerType[] = "perigee.tokenizer";

struct HeldTokenizer {
  TokenizerPtr tokenizer;
  TokenCache cache;
};

std::vector<std::string> texts_at(lua_State* L, int index) {
  std::vector<std::string> texts;
  for (size_t i = 1; lua_istable(L, index) && i <= lua_objlen(L, index); ++i) {
    lua_rawgeti(L, index, static_cast<int>(i));
    size_t length = 0;
    const char* text = luaL_checklstring(L, -1, &length);
    texts.emplace_back(text, length);
    lua_pop(L, 1);
  }
  return texts;
}

HeldTokenizer& tokenizer_at(lua_State* L) { return object_at<HeldTokenizer>(L, 1, kTokenizerType); }

// text_sentences(text): { sentences }
int text_sentences(lua_State* L) {
  size_t length = 0;
  const char* data = luaL_checklstring(L, 1, &length);
  const std::vector<std::string_view> sentences = sentences_of({data, length});
  lua_createtable(L, static_cast<int>(sentences.size()), 0);
  for (size_t i = 0; i < sentences.size(); ++i) {
    lua_pushlstring(L, sentences[i].data(), sentences[i].size());
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  return 1;
}

// tokenizer_open(path): a tokenizer
int tokenizer_open(lua_State* L) {
  const std::string path = luaL_checkstring(L, 1);
  TokenizerPtr tokenizer = Tokenizer::read(as_text(FileContent::open(path, Tokenizer::kMaxFile).bytes()), path);
  push_object<HeldTokenizer>(L, kTokenizerType).tokenizer = std::move(tokenizer);
  return 1;
}

// tokenizer_encode(tokenizer, text, special tokens, in bytes): { ids }, { places, from and to in turn }
int tokenizer_encode(lua_State* L) {
  HeldTokenizer& held = tokenizer_at(L);
  size_t length = 0;
  const char* data = luaL_checklstring(L, 2, &length);
  const std::string_view text(data, length);
  TokenEncoding encoding;
  held.tokenizer->encode(text, "text", lua_toboolean(L, 3) != 0, encoding, &held.cache);
  std::vector<int> places;
  std::vector<uint32_t> characters;
  if (lua_toboolean(L, 4) == 0) {
    characters.resize(length + 1);
    for (size_t i = 0; i < length; ++i) characters[i + 1] = characters[i] + ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80 ? 1 : 0);
  }
  for (const TextSpan& place : encoding.places)
    for (const uint32_t at : {place.from, place.to}) places.push_back(static_cast<int>(characters.empty() ? at : characters[at]));
  push_ints(L, encoding.ids);
  push_ints(L, places);
  return 2;
}

// tokenizer_decode(tokenizer, { ids }, skip special tokens): text
int tokenizer_decode(lua_State* L) {
  const std::vector<int> given = ints_at(L, 2);
  const std::vector<int64_t> ids(given.begin(), given.end());
  const Tokenizer& tokenizer = *tokenizer_at(L).tokenizer;
  for (const int64_t id : ids)
    if (id < 0 || id >= tokenizer.size())
      throw Error(ErrorKind::usage, {.where = "tokenizer:decode",
                                     .what = "there is no such token",
                                     .got = std::to_string(id),
                                     .expected = "0 to " + std::to_string(tokenizer.size() - 1)});
  const std::string text = tokenizer.decode(ids, lua_toboolean(L, 3) != 0);
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

// tokenizer_token(tokenizer, id or text): the token's text or id, false: there is none
int tokenizer_token(lua_State* L) {
  const Tokenizer& tokenizer = *tokenizer_at(L).tokenizer;
  if (lua_type(L, 2) == LUA_TNUMBER) {
    const std::string* token = tokenizer.token(lua_tointeger(L, 2));
    if (token != nullptr) lua_pushlstring(L, token->data(), token->size());
    else lua_pushboolean(L, 0);
    return 1;
  }
  size_t length = 0;
  const char* text = luaL_checklstring(L, 2, &length);
  const int64_t id = tokenizer.id({text, length});
  if (id >= 0) lua_pushinteger(L, static_cast<lua_Integer>(id));
  else lua_pushboolean(L, 0);
  return 1;
}

// tokenizer_size(tokenizer)
int tokenizer_size(lua_State* L) {
  lua_pushinteger(L, static_cast<lua_Integer>(tokenizer_at(L).tokenizer->size()));
  return 1;
}

// tokenizer_train({ files }, size, least count, { special tokens }, output path)
int tokenizer_train(lua_State* L) {
  const std::vector<std::string> files = texts_at(L, 1), special = texts_at(L, 4);
  const int64_t size = luaL_checkinteger(L, 2), min_count = luaL_checkinteger(L, 3);
  const std::string out = luaL_checkstring(L, 5);
  const int64_t least = BpeTraining::kBytes + static_cast<int64_t>(special.size());
  if (size < least || size > BpeTraining::kMaxSize)
    throw Error(ErrorKind::usage,
                {.where = "train_tokenizer",
                 .what = "'size' is out of range",
                 .got = std::to_string(size),
                 .expected = std::to_string(least) + " (the bytes and the special tokens) to " + std::to_string(BpeTraining::kMaxSize)});
  BpeTraining training;
  for (const std::string& file : files) training.add(as_text(FileContent::open(file, uint64_t{1} << 30).bytes()), file);
  write_file(out, as_bytes(training.train(size, std::max<int64_t>(1, min_count), special)));
  return 0;
}

}  // namespace

void add_tokenizer_functions(lua_State* L) {
  static const luaL_Reg kFunctions[] = {{"tokenizer_open", report<tokenizer_open>},     {"tokenizer_encode", report<tokenizer_encode>},
                                        {"tokenizer_decode", report<tokenizer_decode>}, {"tokenizer_token", report<tokenizer_token>},
                                        {"tokenizer_size", report<tokenizer_size>},     {"tokenizer_train", report<tokenizer_train>},
                                        {"text_sentences", report<text_sentences>},     {nullptr, nullptr}};
  luaL_register(L, nullptr, kFunctions);
}

}  // namespace perigee
