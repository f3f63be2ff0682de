#include "src/text/stemmer.h"

#include <libstemmer.h>

#include <cassert>

#include "src/io/module.h"

namespace perigee {
namespace {

struct Snowball {
  Snowball() : module({"libstemmer.so.0d", "libstemmer.so.0"}, "stems of words", "libstemmer0d") {
    module.symbol("sb_stemmer_list", list);
    module.symbol("sb_stemmer_new", make);
    module.symbol("sb_stemmer_delete", remove);
    module.symbol("sb_stemmer_stem", stem);
    module.symbol("sb_stemmer_length", length);
  }
  Module module;
  const char** (*list)();
  sb_stemmer* (*make)(const char* language, const char* encoding);
  void (*remove)(sb_stemmer*);
  const sb_symbol* (*stem)(sb_stemmer*, const sb_symbol* word, int size);
  int (*length)(sb_stemmer*);
};

const Snowball& stemmer_library() {
  static const Snowball loaded;
  return loaded;
}

}  // namespace

std::string Stemmer::language(const Config& config) {
  const std::string language = config.string("stem", "");
  if (language.empty()) return language;
  std::string known;
  for (const char** name = stemmer_library().list(); *name != nullptr; ++name) {
    if (language == *name) return language;
    known += (known.empty() ? "" : ", ") + std::string(*name);
  }
  config.fail("stem", "is no language that there are rules for", Json(language.substr(0, 80)).dump(), known);
}

Stemmer::Stemmer(const std::string& language) : stemmer_(stemmer_library().make(language.c_str(), "UTF_8")) { assert(stemmer_ != nullptr); }

Stemmer::~Stemmer() { stemmer_library().remove(stemmer_); }

std::string Stemmer::stem(const std::string& word) const {
  const sb_symbol* stem = stemmer_library().stem(stemmer_, reinterpret_cast<const sb_symbol*>(word.data()), static_cast<int>(word.size()));
  return {reinterpret_cast<const char*>(stem), static_cast<size_t>(stemmer_library().length(stemmer_))};
}

}  // namespace perigee
