// Indexes that find the rows nearest to a vector without looking at all of them. Immutable once built; any number of threads may ask.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/core/config.h"
#include "src/vectors/vector_rows.h"

namespace perigee {

struct NearRow {
  int64_t row = 0;
  float distance = 0;  // Euclidean; with cosine 1 - the cosine
};

struct IndexOptions {
  bool exact = true;
  bool cosine = true;     // by the angle between, else by Euclidean distance
  int64_t links = 16;     // approximate: of a row to others, on each level
  int64_t breadth = 200;  // approximate: rows that are kept in sight while a row is put in
  uint64_t seed = 1;
};
extern const Schema neighbours_schema;
// `given`: an object with the schema's keys. Error(usage) at `where`.
IndexOptions index_options(const Json& given, const std::string& where);

class NeighbourIndex {
 public:
  virtual ~NeighbourIndex() = default;
  virtual int64_t size() const = 0;
  // `query`: rows.size numbers. The `count` nearest, the nearest first, equally near ones by their numbers. `effort`: of an approximate index, how
  // many rows are kept in sight, at least `count`: more are slower and miss fewer.
  virtual std::vector<NearRow> nearest(std::span<const float> query, int64_t count, int64_t effort = 100) const = 0;
};

// Exact: a vantage-point tree (Yianilos 1993), which prunes by the triangle inequality. Approximate: hierarchical navigable small worlds (Malkov
// and Yashunin 2018). The rows are copied. The same index for the same seed. Null: `stop` was set. Error(usage) for no rows at all.
std::unique_ptr<NeighbourIndex> neighbour_index(const VectorRows& rows, const IndexOptions& options,
                                                const std::atomic<bool>* stop = nullptr);

// For neighbour_index(): rows are those that distances are taken of.
std::unique_ptr<NeighbourIndex> vantage_tree(VectorRows rows, uint64_t seed, const std::atomic<bool>* stop);
std::unique_ptr<NeighbourIndex> small_world(VectorRows rows, const IndexOptions& options, const std::atomic<bool>* stop);

}  // namespace perigee
