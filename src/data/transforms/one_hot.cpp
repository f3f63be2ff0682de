// {"type": "one_hot"}: a class label becomes a distribution: 1 at the class, 0 elsewhere.
#include <algorithm>
#include <cstring>

#include "src/data/labels.h"
#include "src/data/transform.h"

namespace perigee {
namespace {

class OneHot : public Transform {
 public:
  OneHot(const Field& input, int64_t classes) : output_(input), classes_(classes) {
    output_.dtype = Dtype::f32;
    output_.shape = {classes};
    output_.classes = 0;  // no label any more
    output_.class_names.clear();
  }
  Field output() const override { return output_; }
  bool draws() const override { return false; }
  void apply(const std::byte* in, std::byte* out, Draw&) const override {
    int64_t label = 0;
    std::memcpy(&label, in, sizeof label);
    check_label(label, classes_, "one_hot");
    std::memset(out, 0, static_cast<size_t>(classes_) * sizeof(float));
    reinterpret_cast<float*>(out)[label] = 1;
  }

 private:
  Field output_;
  int64_t classes_;
};

std::unique_ptr<Transform> open_one_hot_transform(const Config& config, const DataSource& source, size_t field) {
  const Field& input = source.fields()[field];
  if (input.dtype != Dtype::i64 || input.shape.rank() != 0)
    throw Error(ErrorKind::data, {.where = config.where(),
                                  .what = "field '" + input.name + "' is no class label",
                                  .got = Type{input.dtype, input.shape}.text(),
                                  .expected = "i64[]"});
  const int64_t classes = config.integer_in("classes", 1, 1 << 24, std::max<int64_t>(input.classes, 1));
  if (classes < input.classes)
    config.fail("classes", "are fewer than the data have", std::to_string(classes), std::to_string(input.classes));
  return std::make_unique<OneHot>(input, classes);
}

constexpr const char* kOneHotPositional[] = {"classes"};
constexpr Option kOneHotOptions[] = {{"classes", "integer", "the data's", "length of the distribution", {1, 16777216}}};

}  // namespace

extern const TransformDef transform_one_hot;
const TransformDef transform_one_hot{
    .type = "one_hot",
    .doc = "A class label as a distribution. Options: classes (the data's)",
    .field = "y",
    .schema = {.options = kOneHotOptions, .positional = kOneHotPositional, .common = &common_transform_schema},
    .open = open_one_hot_transform};

}  // namespace perigee
