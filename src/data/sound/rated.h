// Sources whose last axis is time, at a known number of steps a second: what transforms of sound need to know.
#pragma once

#include "src/data/source.h"

namespace perigee {

class RatedSource {
 public:
  virtual ~RatedSource() = default;
  virtual double rate() const = 0;  // 0: not known
};

inline double rate_of(const DataSource& source) {
  const auto* rated = dynamic_cast<const RatedSource*>(&source);
  return rated != nullptr ? rated->rate() : 0;
}

// The field that says how many steps of `field` are there, if the source says so; else -1.
inline int64_t lengths_of(const std::vector<Field>& fields, const std::string& field) {
  for (size_t i = 0; i < fields.size(); ++i)
    if (fields[i].role == FieldRole::length && fields[i].of == field && fields[i].dtype == Dtype::i64) return static_cast<int64_t>(i);
  return -1;
}

}  // namespace perigee
