#include "cluster/rounds/local/fragments.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <numeric>

#include "src/core/pattern.h"

namespace perigee {
namespace {

constexpr int64_t kBorder = 16;  // elements between which a fragment may begin

std::string_view layer_of(const std::string& parameter) { return std::string_view(parameter).substr(0, parameter.rfind('.')); }

// Windows [first, last) of each layer, in the order of the block.
struct Layer {
  size_t first = 0, last = 0;
  int64_t elements = 0;
};

std::vector<Layer> layers_of(std::span<const ParamWindow> windows) {
  std::vector<Layer> layers;
  for (size_t i = 0; i < windows.size(); ++i) {
    if (i == 0 || layer_of(windows[i].name) != layer_of(windows[i - 1].name)) layers.push_back({.first = i});
    layers.back().last = i + 1;
    layers.back().elements += windows[i].elements;
  }
  return layers;
}

// The fragment of every window. Runs of layers end where the sums of their sizes are nearest to equal shares.
std::vector<size_t> by_layers(std::span<const ParamWindow> windows, size_t count, bool strided, const std::string& where) {
  const std::vector<Layer> layers = layers_of(windows);
  if (layers.size() < count)
    throw Error(ErrorKind::model, {.where = where + ": fragments",
                                   .what = "are more than the network has layers with parameters",
                                   .got = std::to_string(count),
                                   .expected = "at most " + std::to_string(layers.size()),
                                   .hint = "cut = \"even\" cuts inside layers"});
  const int64_t all = std::accumulate(layers.begin(), layers.end(), int64_t{0}, [](int64_t n, const Layer& l) { return n + l.elements; });
  std::vector<size_t> chosen(windows.size());
  int64_t before = 0;
  size_t fragment = 0;
  for (size_t l = 0; l < layers.size(); ++l) {
    const bool must = layers.size() - l == count - 1 - fragment;  // the rest has one layer each
    const int64_t middle = before + layers[l].elements / 2;
    const auto border = static_cast<int64_t>(fragment + 1) * all / static_cast<int64_t>(count);
    const bool first_of_fragment = l == 0 || chosen[layers[l].first - 1] != fragment;
    if (l > 0 && fragment + 1 < count && !first_of_fragment && (must || middle >= border)) ++fragment;
    for (size_t w = layers[l].first; w < layers[l].last; ++w) chosen[w] = strided ? l % count : fragment;
    before += layers[l].elements;
  }
  return chosen;
}

std::vector<FragmentRun> runs_of(std::span<const ParamWindow> windows, int64_t block_elements, const std::vector<size_t>& chosen,
                                 size_t fragment) {
  std::vector<FragmentRun> runs;
  for (size_t i = 0; i < windows.size(); ++i) {
    if (chosen[i] != fragment) continue;
    const int64_t begin = i == 0 ? 0 : windows[i].offset, end = i + 1 < windows.size() ? windows[i + 1].offset : block_elements;
    if (!runs.empty() && runs.back().block + runs.back().elements == begin) runs.back().elements += end - begin;
    else runs.push_back({.block = begin, .elements = end - begin});
  }
  return runs;
}

size_t literals(const std::string& pattern) {
  return pattern.size() - static_cast<size_t>(std::count(pattern.begin(), pattern.end(), '*'));
}

// For every window, the number of the policy whose pattern says most about its name.
std::vector<size_t> by_patterns(const std::vector<LayerPolicy>& policies, std::span<const ParamWindow> windows, const std::string& where) {
  std::vector<size_t> chosen(windows.size());
  std::vector<bool> used(policies.size());
  for (size_t w = 0; w < windows.size(); ++w) {
    const LayerPolicy* best = nullptr;
    for (const LayerPolicy& candidate : policies) {
      if (!matches_pattern(candidate.pattern, windows[w].name)) continue;
      used[static_cast<size_t>(&candidate - policies.data())] = true;
      if (best && literals(best->pattern) == literals(candidate.pattern))
        throw Error(ErrorKind::model, {.where = where + ": '" + best->pattern + "'",
                                       .what = "says as much about '" + windows[w].name + "' as '" + candidate.pattern + "'",
                                       .hint = "the pattern with more letters decides; make one of them longer"});
      if (!best || literals(best->pattern) < literals(candidate.pattern)) best = &candidate;
    }
    assert(best);  // there is "*"
    chosen[w] = static_cast<size_t>(best - policies.data());
  }
  for (size_t i = 0; i < policies.size(); ++i) {
    if (used[i]) continue;
    std::vector<std::string> names;
    for (const ParamWindow& window : windows) names.push_back(window.name), names.emplace_back(std::string(layer_of(window.name)) + ".*");
    const std::string hint = nearest_hint(policies[i].pattern, names);
    throw Error(ErrorKind::model, {.where = where + ": '" + policies[i].pattern + "'",
                                   .what = "matches no parameter",
                                   .expected = "a pattern of names such as '" + windows.front().name + "', '*' standing for any characters",
                                   .hint = hint});
  }
  return chosen;
}

bool same_terms(const Policy& x, const Policy& y) {
  return x.every == y.every && x.codec == y.codec && x.name == y.name && x.outer_options == y.outer_options;
}

}  // namespace

FragmentPlan::FragmentPlan(const Policy& policy, std::span<const ParamWindow> windows, int64_t block_elements, const std::string& where) {
  if (!policy.partial()) return;
  if (!policy.layers.empty()) {
    std::vector<size_t> chosen = by_patterns(policy.layers, windows, where);
    for (size_t i = 0; i < policy.layers.size(); ++i) {
      const Policy& terms = policy.layers[i].policy;
      std::string name = policy.layers[i].pattern;
      bool is_first = true;  // policies that are equal are one fragment
      for (size_t j = 0; j < policy.layers.size(); ++j) {
        if (j == i || !same_terms(terms, policy.layers[j].policy)) continue;
        is_first = is_first && i < j;
        if (i < j) name += ", " + policy.layers[j].pattern;
        if (i < j) std::replace(chosen.begin(), chosen.end(), j, i);
      }
      if (!is_first) continue;
      const int64_t interval = terms.every / policy.every;
      outers_.push_back(terms.outer);
      take({.name = name, .interval = interval, .phase = interval - 1, .codec = terms.codec, .outer = outers_.size() - 1},
           runs_of(windows, block_elements, chosen, i), windows);
    }
    return;
  }
  const auto count = static_cast<size_t>(policy.fragments);
  outers_.push_back(policy.outer);
  std::vector<size_t> chosen;
  if (policy.cut != "even" && count > 1) chosen = by_layers(windows, count, policy.cut == "strided", where);
  if (block_elements < kBorder * policy.fragments)
    throw Error(ErrorKind::model, {.where = where + ": fragments",
                                   .what = "are more than the network's parameters fill",
                                   .got = std::to_string(count),
                                   .expected = "at most " + std::to_string(block_elements / kBorder)});
  const auto border = [&](int64_t i) {
    return i == policy.fragments ? block_elements : i * block_elements / policy.fragments / kBorder * kBorder;
  };
  for (size_t i = 0; i < count; ++i) {
    const auto n = static_cast<int64_t>(i);
    take({.name = std::to_string(i + 1) + " of " + std::to_string(count), .interval = policy.fragments, .phase = n, .codec = policy.codec},
         chosen.empty() ? std::vector<FragmentRun>{{.block = border(n), .elements = border(n + 1) - border(n)}}
                        : runs_of(windows, block_elements, chosen, i),
         windows);
  }
}

// Gives the fragment its place in a row, after those before it.
void FragmentPlan::take(Fragment fragment, std::vector<FragmentRun> runs, std::span<const ParamWindow> windows) {
  if (!fragments_.empty()) fragment.row = fragments_.back().row + fragments_.back().elements;
  for (FragmentRun& run : runs) {
    run.row = fragment.row + fragment.elements;
    fragment.elements += run.elements;
    for (const ParamWindow& window : windows) {
      const int64_t begin = std::max(window.offset, run.block), end = std::min(window.offset + window.elements, run.block + run.elements);
      if (begin >= end) continue;
      fragment.parameters += end - begin;
      if (!window.trainable) continue;
      const FragmentRun part{.block = begin, .row = run.row + begin - run.block, .elements = end - begin};
      fragment.trainable.push_back(part);
      const bool matrix = part.elements == window.elements && window.shape.rank() >= 2;
      fragment.tensors.push_back({.first = part.row, .count = part.elements, .rows = matrix ? window.shape[0] : 0});
    }
  }
  fragment.runs = std::move(runs);
  fragments_.push_back(std::move(fragment));
}

std::vector<FragmentPart> FragmentPlan::parts(size_t width) const {
  std::vector<FragmentPart> parts;
  for (const Fragment& f : fragments_)
    parts.push_back({.begin = static_cast<size_t>(f.row) * width,
                     .end = static_cast<size_t>(f.row + f.elements) * width,
                     .coded = !f.codec.is_null(),
                     .interval = f.interval,
                     .phase = f.phase});
  return parts;
}

}  // namespace perigee
