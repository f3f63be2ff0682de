#include "src/vectors/graph_walks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "src/core/error.h"
#include "src/io/codec/compress.h"
#include "src/vectors/draws.h"

namespace perigee {
namespace {

constexpr uint64_t kMaxGraphWalksBytes = uint64_t{1} << 40;
constexpr size_t kMaxEdges = size_t{1} << 32;
constexpr int64_t kPartNodes = 64;
constexpr int kMostTries = 10000;

[[noreturn]] void fail_graph_walks(const std::string& where, int64_t line, std::string what, std::string got) {
  throw Error(ErrorKind::data, {.where = where + ":" + std::to_string(line),
                                .what = std::move(what),
                                .got = std::move(got),
                                .expected = "two nodes and perhaps a weight above 0, such as: a b 0.5"});
}

class WalkSequences final : public Sequences {
 public:
  WalkSequences(const WalkedGraph& graph, const WalkRules& rules)
      : graph_(graph), rules_(rules), most_(std::max({1.0, 1 / rules.back, 1 / rules.out})) {}
  int64_t parts() const override { return (graph_.nodes().size() * rules_.walks + kPartNodes - 1) / kPartNodes; }
  int64_t before(int64_t part) const override { return std::min(part * kPartNodes, graph_.nodes().size() * rules_.walks) * rules_.length; }

  // Round after round over the nodes, each round in an order of its own.
  void read(int64_t part, uint64_t epoch, SequenceBlock& block) const override {
    block.clear();
    const int64_t nodes = graph_.nodes().size();
    for (int64_t walk = part * kPartNodes; walk < std::min((part + 1) * kPartNodes, nodes * rules_.walks); ++walk) {
      PartDraws draws(rules_.seed ^ 0x77616C6B, epoch, static_cast<uint64_t>(walk));
      walk_from(start(walk / nodes, walk % nodes, epoch), draws, block);
    }
  }

 private:
  // A permutation of the nodes by an odd factor and a shift, then a walk over the cycle until it falls among them.
  int64_t start(int64_t round, int64_t place, uint64_t epoch) const {
    uint64_t mask = 1;
    while (mask < static_cast<uint64_t>(graph_.nodes().size())) mask *= 2;
    mask -= 1;
    const uint64_t key = mix_bits(rules_.seed ^ mix_bits(epoch * 0x10001 + static_cast<uint64_t>(round)));
    auto at = static_cast<uint64_t>(place);
    do {
      at = (at * (key | 1) + (key >> 32)) & mask;
      at ^= (at >> 3) & (mask >> 3);
      at = (at * 0x9E3779B1u + (key >> 17)) & mask;
    } while (at >= static_cast<uint64_t>(graph_.nodes().size()));
    return static_cast<int64_t>(at);
  }

  int32_t draw(int64_t node, PartDraws& draws) const {
    const std::span<const double> sums = graph_.sums(node);
    const double drawn = static_cast<double>(draws.bits() >> 11) * 0x1p-53 * sums.back();
    const auto found = std::upper_bound(sums.begin(), sums.end(), drawn);
    return graph_.next(node)[std::min(static_cast<size_t>(found - sums.begin()), sums.size() - 1)];
  }

  // Draws by the weights and takes what is drawn with a chance in proportion to its factor (rejection sampling).
  int32_t draw_after(int32_t before, int32_t node, PartDraws& draws) const {
    for (int tries = 0;; ++tries) {
      const int32_t to = draw(node, draws);
      const double factor = to == before ? 1 / rules_.back : graph_.joined(before, to) ? 1 : 1 / rules_.out;
      if (tries == kMostTries || static_cast<double>(draws.bits() >> 11) * 0x1p-53 * most_ < factor) return to;
    }
  }

  void walk_from(int64_t node, PartDraws& draws, SequenceBlock& block) const {
    const size_t begin = block.elements.size();
    block.elements.push_back(static_cast<int32_t>(node));
    const bool plain = rules_.back == 1 && rules_.out == 1;
    for (int64_t steps = 1; steps < rules_.length; ++steps) {
      const int32_t here = block.elements.back();
      if (graph_.next(here).empty()) break;
      const bool first = block.elements.size() - begin == 1;
      block.elements.push_back(plain || first ? draw(here, draws) : draw_after(block.elements[block.elements.size() - 2], here, draws));
    }
    block.ends.push_back(block.elements.size());
  }

  const WalkedGraph& graph_;
  const WalkRules rules_;
  const double most_;
};

}  // namespace

void WalkedGraph::read(std::string_view text, const std::string& where, ElementTable& names, std::vector<Edge>& edges) {
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1, ++number;
    std::string_view fields[4];
    size_t count = 0;
    for (size_t i = 0; i < line.size() && count < 4;) {
      const size_t begin = line.find_first_not_of(" \t\r,", i);
      if (begin == std::string_view::npos) break;
      i = std::min(line.find_first_of(" \t\r,", begin), line.size());
      fields[count++] = line.substr(begin, i - begin);
    }
    if (count == 0 || fields[0][0] == '#' || fields[0][0] == '%') continue;
    if (count != 2 && count != 3) fail_graph_walks(where, number, "the line is no edge", "'" + std::string(line.substr(0, 60)) + "'");
    double weight = 1;
    if (count == 3) {
      const auto [last, error] = std::from_chars(fields[2].data(), fields[2].data() + fields[2].size(), weight);
      if (error != std::errc() || last != fields[2].data() + fields[2].size() || !(weight > 0) || !std::isfinite(weight))
        fail_graph_walks(where, number, "the weight of an edge is no number above 0", "'" + std::string(fields[2].substr(0, 60)) + "'");
    }
    if (edges.size() == kMaxEdges) fail_graph_walks(where, number, "there are too many edges", std::to_string(kMaxEdges));
    const int32_t from = names.add(fields[0], 1), to = names.add(fields[1], 1);
    edges.push_back({from, to, weight});
  }
}

void WalkedGraph::build(const ElementTable& names, std::vector<Edge> edges, bool directed, const std::string& where) {
  if (edges.empty()) throw Error(ErrorKind::data, {.where = where, .what = "the graph has no edges"});
  nodes_ = names.ranked(1, ElementTable::kMost);
  for (Edge& edge : edges) edge.from = nodes_.find(names.name(edge.from)), edge.to = nodes_.find(names.name(edge.to));
  if (!directed) {
    const size_t count = edges.size();
    for (size_t i = 0; i < count; ++i)
      if (edges[i].from != edges[i].to) edges.push_back({edges[i].to, edges[i].from, edges[i].weight});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.from != b.from ? a.from < b.from : a.to < b.to; });
  begins_.assign(static_cast<size_t>(nodes_.size()) + 1, 0);
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    const bool again = i > 0 && edges[i - 1].from == edge.from && edges[i - 1].to == edge.to;
    const bool first = i == 0 || edges[i - 1].from != edge.from;
    if (again) {
      sums_.back() += edge.weight;
      continue;
    }
    sums_.push_back(edge.weight + (first ? 0 : sums_.back()));
    targets_.push_back(edge.to);
    begins_[static_cast<size_t>(edge.from) + 1] = targets_.size();
  }
  for (size_t i = 1; i < begins_.size(); ++i) begins_[i] = std::max(begins_[i], begins_[i - 1]);
}

WalkedGraph::WalkedGraph(const std::vector<std::string>& paths, bool directed) {
  ElementTable names;
  std::vector<Edge> edges;
  for (const std::string& path : paths) {
    expect_there(path);
    read(as_text(FileContent::open(path, kMaxGraphWalksBytes).bytes()), path, names, edges);
  }
  build(names, std::move(edges), directed, paths.empty() ? "" : paths[0]);
}

WalkedGraph::WalkedGraph(std::string_view text, const std::string& where, bool directed) {
  ElementTable names;
  std::vector<Edge> edges;
  read(text, where, names, edges);
  build(names, std::move(edges), directed, where);
}

bool WalkedGraph::joined(int32_t from, int32_t to) const {
  const std::span<const int32_t> targets = next(from);
  return std::binary_search(targets.begin(), targets.end(), to);
}

std::unique_ptr<Sequences> walk_sequences(const WalkedGraph& graph, const WalkRules& rules) {
  return std::make_unique<WalkSequences>(graph, rules);
}

}  // namespace perigee
