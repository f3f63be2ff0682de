#include "src/vectors/rows/tsne.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/pair_loops.h"
#include "kernels/philox.h"
#include "src/core/cores.h"
#include "src/core/error.h"
#include "src/core/host_isa.h"
#include "src/core/thread_team.h"

namespace perigee {
namespace {

constexpr Option kTsneOptions[] = {
    {.name = "perplexity", .type = "number", .fallback = "30", .doc = "how many neighbours a point has, as it were", .range = {2, 1000}},
    {.name = "steps", .type = "integer", .fallback = "1000", .doc = "steps of gradient descent", .range = {1, 1e6}},
    {.name = "rate", .type = "number", .fallback = "rows / 48, at least 50", .doc = "length of a step", .range = {1e-3, 1e6}},
    {.name = "theta",
     .type = "number",
     .fallback = "0.5",
     .doc = "cells narrower than this share of their distance count as one point; 0: none",
     .range = {0, 0.7}},
    {.name = "exaggeration",
     .type = "number",
     .fallback = "12",
     .doc = "neighbours attract so much more in the first quarter of the steps, 250 at most",
     .range = {1, 100}},
    {.name = "threads",
     .type = "integer",
     .fallback = "0",
     .doc = "how many compute; 0: one for each core. The result does not depend on it",
     .range = {0, 256}},
    {.name = "seed", .type = "integer", .fallback = "1", .doc = "of the first places", .range = {0, 9e15}},
};

struct TsneNear {
  int32_t row;
  float chance;
};
using Neighbours = std::vector<std::vector<TsneNear>>;

// The chances of a row's neighbours, whose entropy is the logarithm of the perplexity.
void set_chances(std::vector<TsneNear>& near, double perplexity) {
  double low = 0, high = INFINITY, beta = 1;
  const double least = static_cast<double>(near[0].chance), wanted = std::log(perplexity);
  std::vector<double> chances(near.size());
  for (int tries = 0; tries < 100; ++tries) {
    double sum = 0, weighted = 0;
    for (size_t i = 0; i < near.size(); ++i) {
      const double distance = static_cast<double>(near[i].chance) - least;
      chances[i] = std::exp(-beta * distance);
      sum += chances[i], weighted += distance * chances[i];
    }
    const double entropy = std::log(sum) + beta * weighted / sum;
    for (double& chance : chances) chance /= sum;
    if (std::abs(entropy - wanted) < 1e-5) break;
    (entropy > wanted ? low : high) = beta;
    beta = std::isinf(high) ? beta * 2 : (low + high) / 2;
  }
  for (size_t i = 0; i < near.size(); ++i) near[i].chance = static_cast<float>(chances[i]);
}

Neighbours neighbours_of(const VectorRows& rows, double perplexity, ThreadTeam& team) {
  const auto count = static_cast<size_t>(std::min<double>(static_cast<double>(rows.rows - 1), 3 * perplexity + 1));
  const auto distance = pair_loops(host_isa()).distance;
  Neighbours all(static_cast<size_t>(rows.rows));
  team.run([&](Team& self) {
    std::vector<TsneNear> near;
    for (int64_t i = self.rank(); i < rows.rows; i += self.size()) {
      near.clear();
      for (int64_t k = 0; k < rows.rows; ++k)
        if (k != i) near.push_back({static_cast<int32_t>(k), distance(rows.row(i), rows.row(k), rows.width)});
      const auto is_nearer = [](const TsneNear& a, const TsneNear& b) {
        return a.chance != b.chance ? a.chance < b.chance : a.row < b.row;
      };
      std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end(), is_nearer);
      all[static_cast<size_t>(i)].assign(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count));
      set_chances(all[static_cast<size_t>(i)], perplexity);
    }
  });
  return all;
}

// The mean of both directions, so that all chances together are 1.
Neighbours both_ways(const Neighbours& one_way) {
  Neighbours both(one_way.size());
  const float half = 0.5f / static_cast<float>(one_way.size());
  for (size_t i = 0; i < one_way.size(); ++i)
    for (const TsneNear& near : one_way[i]) {
      both[i].push_back({near.row, near.chance * half});
      both[static_cast<size_t>(near.row)].push_back({static_cast<int32_t>(i), near.chance * half});
    }
  for (std::vector<TsneNear>& list : both) {
    std::stable_sort(list.begin(), list.end(), [](const TsneNear& a, const TsneNear& b) { return a.row < b.row; });
    size_t end = 0;
    for (size_t i = 0; i < list.size(); ++i)
      if (end > 0 && list[end - 1].row == list[i].row) list[end - 1].chance += list[i].chance;
      else list[end++] = list[i];
    list.resize(end);
  }
  return both;
}

struct Point {
  float x = 0, y = 0;
};

// Cells in cells, four to one, down to single points.
class QuadTree {
 public:
  void build(const std::vector<Point>& points) {
    Point low = points[0], high = points[0];
    for (const Point& p : points) {
      low = {std::min(low.x, p.x), std::min(low.y, p.y)};
      high = {std::max(high.x, p.x), std::max(high.y, p.y)};
    }
    cells_.clear();
    const float half = std::max({high.x - low.x, high.y - low.y, 1e-20f}) * 0.5001f;
    cells_.push_back({.middle = {(low.x + high.x) / 2, (low.y + high.y) / 2}, .half = half});
    for (const Point& p : points) insert(p);
    for (Cell& cell : cells_) {
      cell.centre = {cell.sum.x / cell.mass, cell.sum.y / cell.mass};
      cell.square = 4 * cell.half * cell.half;
    }
  }

  // Adds what all points do to `p`; returns the sum of 1 / (1 + distance^2), the point's own 1 among it.
  float push(const Point& p, float theta_square, Point& force) const {
    int32_t stack[4 * kDeepest + 8];
    int top = 0;
    stack[top++] = 0;
    float sum = 0;
    while (top > 0) {
      const Cell& cell = cells_[static_cast<size_t>(stack[--top])];
      const float dx = p.x - cell.centre.x, dy = p.y - cell.centre.y, square = dx * dx + dy * dy;
      if (cell.first < 0 || cell.square < theta_square * square) {
        const float q = 1 / (1 + square), weighed = cell.mass * q;
        sum += weighed;
        force.x += weighed * q * dx, force.y += weighed * q * dy;
        continue;
      }
      for (int32_t k = 0; k < 4; ++k)
        if (cells_[static_cast<size_t>(cell.first + k)].mass > 0) stack[top++] = cell.first + k;
    }
    return sum;
  }

 private:
  static constexpr int kDeepest = 48;  // points that are nearer than that are one
  struct Cell {
    Point middle;
    float half = 0, square = 0, mass = 0;
    Point sum, centre, only;
    int32_t first = -1;  // of four inside it
  };

  void insert(const Point& p) {
    size_t at = 0;
    for (int depth = 0;; ++depth) {
      Cell& here = cells_[at];
      const bool was_empty = here.mass == 0;
      here.mass += 1, here.sum.x += p.x, here.sum.y += p.y;
      if (was_empty) {
        here.only = p;
        return;
      }
      if (here.first < 0) {
        if (depth == kDeepest || (here.only.x == p.x && here.only.y == p.y)) return;
        split(at);
      }
      at = inside(cells_[at], p);
    }
  }
  // The cell holds points at one place alone so far.
  void split(size_t at) {
    const auto first = static_cast<int32_t>(cells_.size());
    const Point middle = cells_[at].middle;
    const float half = cells_[at].half / 2, held = cells_[at].mass - 1;
    for (int k = 0; k < 4; ++k)
      cells_.push_back({.middle = {middle.x + (k % 2 == 0 ? -half : half), middle.y + (k / 2 == 0 ? -half : half)}, .half = half});
    cells_[at].first = first;
    Cell& below = cells_[inside(cells_[at], cells_[at].only)];
    below.mass = held, below.only = cells_[at].only, below.sum = {held * below.only.x, held * below.only.y};
  }
  static size_t inside(const Cell& cell, const Point& p) {
    return static_cast<size_t>(cell.first + (p.x > cell.middle.x ? 1 : 0) + (p.y > cell.middle.y ? 2 : 0));
  }

  std::vector<Cell> cells_;
};

// Places, and how they move.
class Layout {
 public:
  Layout(Neighbours neighbours, const TsneOptions& options, ThreadTeam& team)
      : neighbours_(std::move(neighbours)),
        options_(options),
        team_(team),
        places_(neighbours_.size()),
        moves_(places_.size()),
        forces_(places_.size()),
        pulls_(places_.size()),
        gains_(places_.size(), Point{1, 1}),
        sums_(places_.size()) {
    const PhiloxKey key = philox_key(options.seed, 0x74534E45);
    for (size_t i = 0; i < places_.size(); ++i) {
      const PhiloxBlock block = philox_for_example(key, 0, i, 0);
      const auto draw = [&](uint32_t bits) { return (uniform_from_bits(bits) - 0.5f) * 3.46e-4f; };  // standard deviation 1e-4
      places_[i] = {draw(block.lane[0]), draw(block.lane[1])};
    }
    rate_ = static_cast<float>(options.rate > 0 ? options.rate
                                                : std::max(50.0, static_cast<double>(places_.size()) / options.exaggeration / 4));
  }

  void step(bool exaggerated) {
    find_forces();
    const float total = static_cast<float>(sum_of(sums_)), momentum = exaggerated ? 0.5f : 0.8f;
    const float more = exaggerated ? static_cast<float>(options_.exaggeration) : 1;
    const auto move = [&](float pull, float push, float& moved, float& gain, float& place) {
      const float gradient = 4 * (more * pull - push / total);
      gain = moved * gradient < 0 ? gain + 0.2f : std::max(gain * 0.8f, 0.01f);
      moved = momentum * moved - rate_ * gain * gradient;
      place += moved;
    };
    for (size_t i = 0; i < places_.size(); ++i) {
      move(pulls_[i].x, forces_[i].x, moves_[i].x, gains_[i].x, places_[i].x);
      move(pulls_[i].y, forces_[i].y, moves_[i].y, gains_[i].y, places_[i].y);
    }
  }

  double divergence() {
    find_forces();
    const double total = sum_of(sums_);
    double sum = 0;
    for (size_t i = 0; i < places_.size(); ++i)
      for (const TsneNear& near : neighbours_[i]) {
        const double q = static_cast<double>(likeness(i, near.row)) / total, p = static_cast<double>(near.chance);
        if (p > 0) sum += p * std::log(p / std::max(q, 1e-30));
      }
    return sum;
  }
  const std::vector<Point>& places() const { return places_; }

 private:
  float likeness(size_t i, int32_t k) const {
    const Point &a = places_[i], &b = places_[static_cast<size_t>(k)];
    return 1 / (1 + (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y));
  }
  static double sum_of(const std::vector<float>& values) {
    double sum = 0;
    for (const float value : values) sum += static_cast<double>(value);
    return sum;
  }
  void find_forces() {
    tree_.build(places_);
    const auto theta_square = static_cast<float>(options_.theta * options_.theta);
    team_.run([&](Team& self) {
      const size_t count = places_.size(), rank = static_cast<size_t>(self.rank()), size = static_cast<size_t>(self.size());
      for (size_t i = count * rank / size; i < count * (rank + 1) / size; ++i) {
        forces_[i] = {}, pulls_[i] = {};
        sums_[i] = tree_.push(places_[i], theta_square, forces_[i]) - 1;
        for (const TsneNear& near : neighbours_[i]) {
          const float pq = near.chance * likeness(i, near.row);
          pulls_[i].x += pq * (places_[i].x - places_[static_cast<size_t>(near.row)].x);
          pulls_[i].y += pq * (places_[i].y - places_[static_cast<size_t>(near.row)].y);
        }
      }
    });
  }

  const Neighbours neighbours_;
  const TsneOptions options_;
  ThreadTeam& team_;
  QuadTree tree_;
  std::vector<Point> places_, moves_, forces_, pulls_, gains_;
  std::vector<float> sums_;
  float rate_ = 0;
};

}  // namespace

extern const Schema tsne_schema;
const Schema tsne_schema{.options = kTsneOptions};

TsneOptions tsne_options(const Json& given, const std::string& where) {
  const Config config(given, tsne_schema, where, ErrorKind::usage);
  TsneOptions options{.perplexity = config.number("perplexity"),
                      .rate = config.has("rate") ? config.number("rate") : 0,
                      .theta = config.number("theta"),
                      .exaggeration = config.number("exaggeration"),
                      .steps = config.integer("steps"),
                      .threads = config.integer("threads"),
                      .seed = static_cast<uint64_t>(config.integer("seed"))};
  if (options.threads == 0) options.threads = available_cores();
  options.exaggerated = std::min<int64_t>(250, options.steps / 4);
  return options;
}

TsneResult tsne(const VectorRows& rows, const TsneOptions& options, const std::atomic<bool>* stop) {
  if (static_cast<double>(rows.rows) < 3 * options.perplexity + 1)
    throw Error(ErrorKind::usage, {.where = "tsne",
                                   .what = "there are too few rows for the perplexity",
                                   .got = std::to_string(rows.rows),
                                   .expected = "at least " + std::to_string(static_cast<int64_t>(3 * options.perplexity + 1)),
                                   .hint = "lower the perplexity"});
  if (rows.rows > INT32_MAX) throw Error(ErrorKind::resources, {.where = "tsne", .what = "there are too many rows"});
  ThreadTeam team(static_cast<int>(options.threads));
  Layout layout(both_ways(neighbours_of(rows, options.perplexity, team)), options, team);
  TsneResult result;
  for (int64_t step = 0; step < options.steps && result.complete; ++step) {
    layout.step(step < options.exaggerated);
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) result.complete = false;
  }
  result.divergence = layout.divergence();
  result.places = VectorRows(rows.rows, 2);
  for (int64_t i = 0; i < rows.rows; ++i) {
    const Point& place = layout.places()[static_cast<size_t>(i)];
    result.places.row(i)[0] = place.x, result.places.row(i)[1] = place.y;
  }
  return result;
}

}  // namespace perigee
