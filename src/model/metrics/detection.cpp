// How well objects are found: mean average precision of a grid of boxes, as the loss yolo2 trains it. The average precision of a class is the area
// under precision over recall, with precision made monotone (PASCAL VOC from 2010 on).
#include <algorithm>
#include <map>
#include <vector>

#include "src/model/evaluation.h"
#include "src/model/metrics/rows.h"
#include "src/nn/detections.h"

namespace perigee {
namespace {

struct Found {
  double score = 0;
  bool right = false;
};

struct DetectionKind {
  std::vector<Found> found;
  double wanted = 0;  // objects that are there
};

double average_precision(DetectionKind kind) {
  std::stable_sort(kind.found.begin(), kind.found.end(), [](const Found& a, const Found& b) { return a.score > b.score; });
  std::vector<double> precision, recall;
  double right = 0;
  for (size_t i = 0; i < kind.found.size(); ++i) {
    right += kind.found[i].right;
    precision.push_back(right / static_cast<double>(i + 1));
    recall.push_back(right / kind.wanted);
  }
  double area = 0, best = 0;
  for (size_t i = precision.size(); i-- > 0;) {
    best = std::max(best, precision[i]);
    area += best * (recall[i] - (i > 0 ? recall[i - 1] : 0));
  }
  return area;
}

class DetectionEvaluation : public Evaluation {
 public:
  explicit DetectionEvaluation(const Config& options)
      : boxes_(read_grid_boxes(options)),
        threshold_(options.number("threshold")),
        suppression_(options.number("suppression")),
        overlap_(options.number("overlap")) {}

  void add(const Tensor& output, const Tensor& target, int64_t count, std::span<const double> weights) override {
    const Rows rows(output, target, count);
    const Shape &out = output.shape(), &wanted = target.shape();
    const auto boxes = static_cast<int64_t>(boxes_.size());
    const bool grids = out.rank() == 4 && wanted.rank() == 4 && out[1] % boxes == 0 && out[1] / boxes > 5;
    if (!grids || wanted[1] != out[1] / boxes - 1 || wanted[2] != out[2] || wanted[3] != out[3])
      throw Error(ErrorKind::model, {"detection", "outputs and targets are no grids of boxes", out.text() + " and " + wanted.text(),
                                     "outputs N x boxes * (5 + classes) x H x W, targets N x (4 + classes) x H x W"});
    kinds_.resize(std::max(kinds_.size(), static_cast<size_t>(wanted[1] - 4)));
    for (int64_t row = 0; row < rows.count; ++row)
      if (weight_of(weights, row) > 0) judge(rows, row, wanted);
  }

  void merge(const Evaluation& other) override {
    const auto& from = dynamic_cast<const DetectionEvaluation&>(other);
    kinds_.resize(std::max(kinds_.size(), from.kinds_.size()));
    for (size_t k = 0; k < from.kinds_.size(); ++k) {
      kinds_[k].wanted += from.kinds_[k].wanted;
      kinds_[k].found.insert(kinds_[k].found.end(), from.kinds_[k].found.begin(), from.kinds_[k].found.end());
    }
  }

  Json result() const override {
    Json list = Json::array();
    double sum = 0, counted = 0;
    for (const DetectionKind& kind : kinds_) {
      const Json precision = kind.wanted > 0 ? Json(average_precision(kind)) : Json();
      if (kind.wanted > 0) sum += precision.as_number(), ++counted;
      list.push(Json(Json::Object{{"average_precision", precision}, {"objects", kind.wanted}}));
    }
    return Json(Json::Object{{"mean_average_precision", ratio(sum, counted)}, {"classes", std::move(list)}});
  }

  Json state() const override {
    Json list = Json::array();
    for (const DetectionKind& kind : kinds_) {
      Json scores = Json::array(), right = Json::array();
      for (const Found& found : kind.found) scores.push(found.score), right.push(found.right);
      list.push(Json(Json::Object{{"wanted", kind.wanted}, {"scores", std::move(scores)}, {"right", std::move(right)}}));
    }
    return Json(Json::Object{{"classes", std::move(list)}});
  }

  void restore(const Json& state) override {
    const Config config(state, "state of the evaluation 'detection'", ErrorKind::data);
    const Json* list = config.raw("classes");
    if (!list || !list->is_array()) config.fail("classes", "must be a list");
    kinds_.clear();
    for (const Json& item : list->as_array()) {
      const Config part = config.element(item, "classes");
      DetectionKind kind{.found = {}, .wanted = part.number("wanted")};
      const Json *scores = part.raw("scores"), *right = part.raw("right");
      if (!scores || !right || !scores->is_array() || !right->is_array() || scores->as_array().size() != right->as_array().size())
        part.fail("scores", "must have as many elements as 'right'");
      for (size_t i = 0; i < scores->as_array().size(); ++i) {
        const Json &score = scores->as_array()[i], &hit = right->as_array()[i];
        if (!score.is_number() || !hit.is_bool()) part.fail("scores", "must be numbers, and 'right' true or false");
        kind.found.push_back({score.as_number(), hit.as_bool()});
      }
      kinds_.push_back(std::move(kind));
    }
  }

 private:
  struct Object {
    Box box;
    bool taken = false;
  };

  // Each object is found once, by the best detection that overlaps it enough.
  void judge(const Rows& rows, int64_t row, const Shape& wanted) {
    const int64_t plane = wanted[2] * wanted[3];
    std::map<int64_t, std::vector<Object>> objects;
    for (int64_t kind = 0; kind < wanted[1] - 4; ++kind)
      for (int64_t cell = 0; cell < plane; ++cell) {
        const auto number = [&](int64_t i) { return rows.wanted(row, i * plane + cell); };
        if (number(4 + kind) <= 0.5) continue;
        objects[kind].push_back({{number(0), number(1), number(2), number(3)}});
        kinds_[static_cast<size_t>(kind)].wanted += 1;
      }
    for (const Detection& found : grid_detections(rows.output, row, boxes_, threshold_, suppression_)) {
      Object* best = nullptr;
      for (Object& object : objects[found.kind])
        if (!best || intersection_over_union(object.box, found.box) > intersection_over_union(best->box, found.box)) best = &object;
      const bool right = best && !best->taken && intersection_over_union(best->box, found.box) >= overlap_;
      if (right) best->taken = true;
      kinds_[static_cast<size_t>(found.kind)].found.push_back({found.score, right});
    }
  }

  std::vector<std::array<double, 2>> boxes_;
  double threshold_, suppression_, overlap_;
  std::vector<DetectionKind> kinds_;
};

constexpr Option kDetectionOptions[] = {{"boxes", "list", nullptr, "those of the loss: { width, height } of each box of a cell, in cells"},
                                        {"threshold", "number", "0.01", "score from which a box is taken for an object", {0, 1}},
                                        {"suppression",
                                         "number",
                                         "0.45",
                                         "overlap with a better box of the class (intersection over union) above which a box is left out",
                                         {0, 1}},
                                        {"overlap", "number", "0.5", "overlap with an object from which it is found", {0, 1}}};

}  // namespace

extern const EvaluationDef evaluation_detection;
const EvaluationDef evaluation_detection{
    .name = "detection",
    .doc = "mean average precision of boxes around objects, of a network with the loss yolo2, after non-maximum suppression",
    .schema = {.options = kDetectionOptions},
    .make = [](const Config& options, const EvaluationTask&) -> std::unique_ptr<Evaluation> {
      return std::make_unique<DetectionEvaluation>(options);
    }};

}  // namespace perigee
