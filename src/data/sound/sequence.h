// Shared by transforms of sequences, such as recordings: f32 fields of rows x steps.
#pragma once

#include "src/data/transform.h"

namespace perigee {

class SequenceTransform : public Transform {
 public:
  // Error(data) when the field is no such sequence.
  SequenceTransform(const Config& config, const DataSource& source, size_t field);
  Field output() const override { return field_; }
  void apply(const std::byte* in, std::byte* out, Draw& draw) const override;
  void apply_steps(const std::byte* in, std::byte* out, int64_t* steps, Draw& draw) const override;

 protected:
  // `there` of the steps count. Returns how many of the output's do.
  virtual int64_t change(const float* in, float* out, int64_t there, Draw& draw) const = 0;
  int64_t elements() const { return rows_ * steps_; }

  Field field_;
  int64_t rows_ = 0, steps_ = 0;
};

template <class T>
std::unique_ptr<Transform> open_sequence(const Config& config, const DataSource& source, size_t field) {
  return std::make_unique<T>(config, source, field);
}

}  // namespace perigee
