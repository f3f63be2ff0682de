#include "src/vectors/word_vectors.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>

#include "kernels/pair_loops.h"
#include "src/core/error.h"
#include "src/core/host_isa.h"
#include "src/core/thread_team.h"
#include "src/vectors/subwords_of.h"

namespace perigee {
namespace {

constexpr int64_t kBlock = 256;  // rows that stay in the second-level cache while all queries of a block pass

float scale_of(const float* row, int64_t width) {
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += static_cast<double>(row[i]) * row[i];
  return sum > 0 ? static_cast<float>(1 / std::sqrt(sum)) : 0;
}

bool is_better(const Neighbour& a, const Neighbour& b) {
  return a.similarity != b.similarity ? a.similarity > b.similarity : a.number < b.number;
}

}  // namespace

WordVectors::WordVectors(ElementTable names, VectorRows rows)
    : WordVectors(std::make_shared<const ElementTable>(std::move(names)), std::move(rows)) {}

WordVectors::WordVectors(std::shared_ptr<const ElementTable> names, VectorRows rows) : names_(std::move(names)), rows_(std::move(rows)) {
  assert(names_->size() == rows_.rows);
  scales_.reserve(static_cast<size_t>(rows_.rows));
  for (int64_t i = 0; i < rows_.rows; ++i) scales_.push_back(scale_of(rows_.row(i), rows_.width));
}

void WordVectors::set_subwords(VectorRows subwords, int64_t least, int64_t longest) {
  subwords_ = std::move(subwords);
  least_ = least, longest_ = longest;
}

void WordVectors::fail_unknown(std::string_view name) const {
  throw Error(ErrorKind::data,
              {.what = "there is no vector of '" + std::string(name) + "'", .hint = nearest_hint(name, names_->nearest_names(name))});
}

int64_t WordVectors::number_of(std::string_view name) const {
  const int32_t number = names_->find(name);
  if (number < 0) fail_unknown(name);
  return number;
}

std::vector<float> WordVectors::vector(std::string_view name) const {
  const int32_t number = names_->find(name);
  if (number >= 0) return {rows_.row(number), rows_.row(number) + rows_.size};
  if (subwords_.rows == 0) fail_unknown(name);
  std::vector<const float*> parts;
  each_subword(name, least_, longest_,
               [&](std::string_view part) { parts.push_back(subwords_.row(subword_bucket(part, subwords_.rows))); });
  if (parts.empty()) fail_unknown(name);
  std::vector<float> sum(static_cast<size_t>(subwords_.width));
  pair_loops(host_isa())
      .sum(parts.data(), static_cast<int64_t>(parts.size()), subwords_.width, 1 / static_cast<float>(parts.size()), sum.data());
  sum.resize(static_cast<size_t>(rows_.size));
  return sum;
}

void WordVectors::unit(int64_t number, float* out) const {
  const float* row = rows_.row(number);
  for (int64_t i = 0; i < rows_.width; ++i) out[i] = row[i] * scales_[static_cast<size_t>(number)];
}

std::vector<float> WordVectors::mean(const std::vector<std::string>& plus, const std::vector<std::string>& minus) const {
  if (plus.empty() && minus.empty()) throw Error(ErrorKind::usage, {.what = "there are no words to take the mean of"});
  std::vector<float> mean(static_cast<size_t>(rows_.size));
  const auto add = [&](const std::string& name, float sign) {
    const std::vector<float> one = vector(name);
    const float factor = sign * scale_of(one.data(), rows_.size) / static_cast<float>(plus.size() + minus.size());
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += factor * one[i];
  };
  for (const std::string& name : plus) add(name, 1);
  for (const std::string& name : minus) add(name, -1);
  return mean;
}

double WordVectors::similarity(std::string_view a, std::string_view b) const {
  const std::vector<float> x = vector(a), y = vector(b);
  double product = 0;
  for (size_t i = 0; i < x.size(); ++i) product += static_cast<double>(x[i]) * y[i];
  return product * scale_of(x.data(), rows_.size) * scale_of(y.data(), rows_.size);
}

std::vector<Neighbour> WordVectors::nearest(std::span<const float> query, int64_t count, const std::vector<std::string>& except) const {
  if (static_cast<int64_t>(query.size()) != rows_.size)
    throw Error(ErrorKind::usage, {.what = "the vector has another length than those here",
                                   .got = std::to_string(query.size()),
                                   .expected = std::to_string(rows_.size)});
  std::vector<float> wide(static_cast<size_t>(rows_.width)), products(static_cast<size_t>(rows_.rows));
  std::copy(query.begin(), query.end(), wide.begin());
  const float scale = scale_of(wide.data(), rows_.width);
  pair_loops(host_isa()).products(rows_.values.data<float>(), rows_.rows, rows_.width, wide.data(), products.data());
  std::vector<char> left_out(products.size());
  for (const std::string& name : except)
    if (const int32_t number = names_->find(name); number >= 0) left_out[static_cast<size_t>(number)] = 1;
  std::vector<Neighbour> all;
  for (size_t i = 0; i < products.size(); ++i)
    if (!left_out[i]) all.push_back({static_cast<int64_t>(i), products[i] * scales_[i] * scale});
  const auto most = static_cast<std::ptrdiff_t>(std::clamp<int64_t>(count, 0, static_cast<int64_t>(all.size())));
  std::partial_sort(all.begin(), all.begin() + most, all.end(), is_better);
  all.resize(static_cast<size_t>(most));
  return all;
}

std::vector<Neighbour> WordVectors::best(const VectorRows& queries, const std::vector<std::vector<int64_t>>& except, int threads) const {
  std::vector<Neighbour> best(static_cast<size_t>(queries.rows), {-1, -2});
  const int64_t blocks = (queries.rows + kBlock - 1) / kBlock;
  ThreadTeam team(static_cast<int>(std::clamp<int64_t>(threads, 1, std::max<int64_t>(1, blocks))));
  std::atomic<int64_t> next{0};
  const auto products_of = pair_loops(host_isa()).products;
  team.run([&](Team&) {
    float products[kBlock];
    for (int64_t block = next++; block < blocks; block = next++)
      for (int64_t from = 0; from < rows_.rows; from += kBlock) {
        const int64_t count = std::min(kBlock, rows_.rows - from);
        for (int64_t q = block * kBlock; q < std::min(queries.rows, (block + 1) * kBlock); ++q) {
          products_of(rows_.row(from), count, rows_.width, queries.row(q), products);
          const std::vector<int64_t>& out = except[static_cast<size_t>(q)];
          Neighbour& found = best[static_cast<size_t>(q)];
          for (int64_t i = 0; i < count; ++i) {
            const Neighbour one{from + i, products[i] * scales_[static_cast<size_t>(from + i)]};
            if (is_better(one, found) && std::find(out.begin(), out.end(), one.number) == out.end()) found = one;
          }
        }
      }
  });
  return best;
}

}  // namespace perigee
