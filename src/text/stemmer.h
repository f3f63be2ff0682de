// Words cut to their stems ("running" to "run") by the rules of Snowball (Porter 1980, 2001), from libstemmer, loaded when a job first asks for it.
#pragma once

#include <string>

#include "src/core/config.h"

struct sb_stemmer;

namespace perigee {

// For one thread at a time.
class Stemmer {
 public:
  // The option 'stem' of `config`: one of the languages that there are rules for, or empty. An error for any other.
  static std::string language(const Config& config);

  explicit Stemmer(const std::string& language);
  Stemmer(const Stemmer&) = delete;
  ~Stemmer();

  // `word`: small letters, UTF-8.
  std::string stem(const std::string& word) const;

 private:
  sb_stemmer* stemmer_;
};

}  // namespace perigee
