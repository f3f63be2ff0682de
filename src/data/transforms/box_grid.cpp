// {"type": "box_grid", "field": "boxes", "size": [13, 13], "classes": 20}: boxes as the target of the loss yolo2: in the cell of a grid where a box
// has its middle stand its sides in cells and its class as one 1.
#include <algorithm>

#include "src/data/transforms/carried.h"

namespace perigee {
namespace {

class BoxGrid : public Transform {
 public:
  BoxGrid(const Field& field, const Shape& picture, int64_t rows, int64_t columns, int64_t classes)
      : boxes_(field.shape[0]),
        rows_(rows),
        columns_(columns),
        classes_(classes),
        down_(static_cast<double>(rows) / static_cast<double>(picture[picture.rank() - 2])),
        across_(static_cast<double>(columns) / static_cast<double>(picture[picture.rank() - 1])),
        output_(field) {
    output_.shape = {4 + classes, rows, columns};
    output_.on_picture = OnPicture::none;
    output_.of.clear();
  }
  Field output() const override { return output_; }
  bool draws() const override { return false; }

  // The first of several boxes with their middle in one cell stays; a class beyond the last one is not there.
  void apply(const std::byte* in, std::byte* out, Draw& /*draw*/) const override {
    const auto* from = reinterpret_cast<const float*>(in);
    auto* to = reinterpret_cast<float*>(out);
    const int64_t cells = rows_ * columns_;
    std::fill_n(to, (4 + classes_) * cells, 0.f);
    for (int64_t i = 0; i < boxes_; ++i) {
      const float* box = from + i * kBoxNumbers;
      if (!(box[4] >= 0) || box[4] >= static_cast<float>(classes_)) continue;
      const double sides[] = {box[0] * across_, box[1] * down_, box[2] * across_, box[3] * down_};
      const auto column = std::clamp<int64_t>(static_cast<int64_t>((sides[0] + sides[2]) / 2), 0, columns_ - 1);
      const auto row = std::clamp<int64_t>(static_cast<int64_t>((sides[1] + sides[3]) / 2), 0, rows_ - 1);
      const int64_t cell = row * columns_ + column;
      if (to[2 * cells + cell] > 0) continue;
      for (int k = 0; k < 4; ++k) to[k * cells + cell] = static_cast<float>(sides[k]);
      to[(4 + static_cast<int64_t>(box[4])) * cells + cell] = 1;
    }
  }

 private:
  int64_t boxes_, rows_, columns_, classes_;
  double down_, across_;  // cells of a pixel
  Field output_;
};

std::unique_ptr<Transform> open_box_grid(const Config& config, const DataSource& source, size_t field) {
  const Field& boxes = source.fields()[field];
  if (boxes.on_picture != OnPicture::boxes)
    config.fail("field", "has no boxes", "'" + boxes.name + "': " + Type{boxes.dtype, boxes.shape}.text(),
                "the field boxes of pg.data.objects");
  const Field& picture = source.fields()[field_index(source, boxes.of, config.where())];
  const std::vector<int64_t> size = config.integers("size", 2, 0);
  if (size[0] < 1 || size[1] < 1 || size[0] > 1024 || size[1] > 1024) config.fail("size", "is out of range", "", "1 to 1024");
  return std::make_unique<BoxGrid>(boxes, picture.shape, size[0], size[1], config.integer("classes"));
}

constexpr const char* kBoxGridPositional[] = {"size"};
constexpr Option kBoxGridOptions[] = {
    {"size", "integer or {height, width}", nullptr, "of the grid, as the network's output has it", {1, 1024}},
    {"classes", "integer", nullptr, "how many classes the boxes may have", {1, 65536}}};

}  // namespace

extern const TransformDef transform_box_grid;
const TransformDef transform_box_grid{
    .type = "box_grid",
    .doc = "Boxes of pg.data.objects as the target of pg.loss.yolo2. Options: size (of the grid), classes",
    .field = "boxes",
    .schema = {.options = kBoxGridOptions, .positional = kBoxGridPositional, .common = &common_transform_schema},
    .open = open_box_grid};

}  // namespace perigee
