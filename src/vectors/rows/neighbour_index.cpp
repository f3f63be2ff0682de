#include "src/vectors/rows/neighbour_index.h"

#include <algorithm>
#include <cmath>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr Option kNeighbourIndexOptions[] = {
    {.name = "exact",
     .type = "boolean",
     .fallback = "true",
     .doc = "a vantage-point tree, which finds the nearest rows; false: a graph of small worlds (HNSW), which misses a few and is much "
            "faster"},
    {.name = "metric",
     .type = "name",
     .fallback = "cosine",
     .doc = "what near means: a small angle between, or a small Euclidean distance",
     .choices = {"cosine", "euclidean"}},
    {.name = "links", .type = "integer", .fallback = "16", .doc = "approximate: links of a row to others", .range = {2, 256}},
    {.name = "breadth",
     .type = "integer",
     .fallback = "200",
     .doc = "approximate: rows kept in sight while a row is put in; more make a better graph, and take longer",
     .range = {1, 100000}},
    {.name = "seed", .type = "integer", .fallback = "1", .doc = "of the draws that shape the index", .range = {0, 9e15}},
};

void make_unit(float* row, int64_t size) {
  double square = 0;
  for (int64_t i = 0; i < size; ++i) square += static_cast<double>(row[i]) * row[i];
  const auto scale = static_cast<float>(square > 0 ? 1 / std::sqrt(square) : 0);
  for (int64_t i = 0; i < size; ++i) row[i] *= scale;
}

// Among vectors of length 1 the squared distance is twice what the cosine lacks to 1.
class CosineIndex final : public NeighbourIndex {
 public:
  explicit CosineIndex(std::unique_ptr<NeighbourIndex> inner) : inner_(std::move(inner)) {}
  int64_t size() const override { return inner_->size(); }
  std::vector<NearRow> nearest(std::span<const float> query, int64_t count, int64_t effort) const override {
    std::vector<float> unit(query.begin(), query.end());
    make_unit(unit.data(), static_cast<int64_t>(unit.size()));
    std::vector<NearRow> found = inner_->nearest(unit, count, effort);
    for (NearRow& one : found) one.distance *= one.distance / 2;
    return found;
  }

 private:
  std::unique_ptr<NeighbourIndex> inner_;
};

}  // namespace

extern const Schema neighbours_schema;
const Schema neighbours_schema{.options = kNeighbourIndexOptions};

IndexOptions index_options(const Json& given, const std::string& where) {
  const Config config(given, neighbours_schema, where, ErrorKind::usage);
  return {.exact = config.boolean("exact"),
          .cosine = config.choice("metric") == "cosine",
          .links = config.integer("links"),
          .breadth = config.integer("breadth"),
          .seed = static_cast<uint64_t>(config.integer("seed"))};
}

std::unique_ptr<NeighbourIndex> neighbour_index(const VectorRows& rows, const IndexOptions& options, const std::atomic<bool>* stop) {
  if (rows.rows == 0) throw Error(ErrorKind::usage, {.where = "neighbours", .what = "there are no rows to find"});
  VectorRows own(rows.rows, rows.size);
  for (int64_t i = 0; i < rows.rows; ++i) {
    std::copy_n(rows.row(i), rows.size, own.row(i));
    if (options.cosine) make_unit(own.row(i), rows.size);
  }
  auto index = options.exact ? vantage_tree(std::move(own), options.seed, stop) : small_world(std::move(own), options, stop);
  if (index == nullptr || !options.cosine) return index;
  return std::make_unique<CosineIndex>(std::move(index));
}

}  // namespace perigee
