#include "src/data/sound/sequence.h"

#include <algorithm>

namespace perigee {

SequenceTransform::SequenceTransform(const Config& config, const DataSource& source, size_t field) : field_(source.fields()[field]) {
  if (field_.dtype != Dtype::f32 || field_.shape.rank() != 2 || field_.shape.elements() == 0)
    throw Error(ErrorKind::data, {.where = config.where(),
                                  .what = "field '" + field_.name + "' is no sequence",
                                  .got = Type{field_.dtype, field_.shape}.text(),
                                  .expected = "f32 of rows x steps, as recordings are"});
  rows_ = field_.shape[0], steps_ = field_.shape[1];
}

void SequenceTransform::apply(const std::byte* in, std::byte* out, Draw& draw) const {
  int64_t all = -1;
  apply_steps(in, out, &all, draw);
}

void SequenceTransform::apply_steps(const std::byte* in, std::byte* out, int64_t* steps, Draw& draw) const {
  const int64_t there = *steps < 0 ? steps_ : std::min(*steps, steps_);
  const int64_t left = change(reinterpret_cast<const float*>(in), reinterpret_cast<float*>(out), there, draw);
  if (*steps >= 0) *steps = left;
}

}  // namespace perigee
