#include "src/model/plans/recompute.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "src/core/config.h"
#include "src/core/error.h"
#include "src/core/pattern.h"
#include "src/graph/passes/recompute.h"

namespace perigee {
namespace {

using Mode = RecomputeOptions::Mode;

struct Variant {
  std::string how;
  Dropped dropped;
  double flops = 0;
};

std::string percent(double share) { return share < 1 ? std::to_string(std::lround(100 * share)) + " % of " : ""; }

// From few to many operations.
std::vector<Variant> variants_of(const RecomputeAnalysis& analysis, bool parts) {
  std::vector<Variant> variants;
  const auto add = [&](std::string how, Dropped dropped) {
    const auto same = [&](const Variant& known) { return known.dropped == dropped; };
    if (std::any_of(variants.begin(), variants.end(), same)) return;
    const double flops = flops_of(analysis.rewrite(dropped));
    variants.push_back({std::move(how), std::move(dropped), flops});
  };
  const std::vector<double> shares = parts ? std::vector{0.25, 0.5, 0.75, 1.0} : std::vector{1.0};
  for (const double share : shares) {
    for (const int depth : {1, 2, 4}) add(percent(share) + "the results of cheap operations", analysis.cheap(share, depth));
    for (const int segments : {2, 3, 4, 6, 8, 12, 16})
      for (const int depth : {0, 1, 3})
        add(percent(share) + std::to_string(segments) + " segments" + (depth > 0 ? " and the results of cheap operations" : ""),
            analysis.segments(segments, share, depth));
  }
  add("everything", analysis.everything());
  std::stable_sort(variants.begin(), variants.end(), [](const Variant& a, const Variant& b) { return a.flops < b.flops; });
  return variants;
}

}  // namespace

RecomputeOptions RecomputeOptions::of(const Job& job) {
  const Config config(job.json(), job.where());
  const Json* given = config.raw("recompute");
  if (!given || given->is_null()) return {};
  if (given->is_array()) return {.mode = Mode::layers, .patterns = config.string_list("recompute")};
  const std::string name = config.choice("recompute", "none", {"none", "auto", "all"});
  return {.mode = name == "all" ? Mode::all : name == "auto" ? Mode::automatic : Mode::none};
}

std::vector<std::string> RecomputeOptions::scopes(const std::vector<LayerReport>& layers, const std::string& where) const {
  std::vector<std::string> found, known;
  for (const LayerReport& layer : layers) known.push_back(layer.name);
  for (const std::string& pattern : patterns) {
    const size_t before = found.size();
    for (const LayerReport& layer : layers)
      if (matches_pattern(pattern, layer.name)) found.push_back(layer.scope);
    if (found.size() == before)
      throw Error(ErrorKind::model, {.where = where + ": recompute",
                                     .what = "no layer matches '" + pattern + "'",
                                     .expected = "\"none\", \"auto\", \"all\", or names of layers ('conv*')",
                                     .hint = nearest_hint(pattern, known)});
  }
  return found;
}

size_t memory_limit_of(const Job& job) {
  const Config config(job.json(), job.where());
  const Json* given = config.raw("memory_limit");
  if (!given || given->is_null()) return 0;
  constexpr int64_t kMost = int64_t{1} << 50;
  if (!given->is_string()) return static_cast<size_t>(config.integer_in("memory_limit", 1, kMost));
  const std::string& text = given->as_string();
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(status == std::errc() ? std::string_view(end, static_cast<size_t>(text.data() + text.size() - end)) : "?");
  unit.erase(std::remove(unit.begin(), unit.end(), ' '), unit.end());
  static constexpr std::pair<const char*, double> kUnits[] = {
      {"", 1}, {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 1024}, {"MiB", 1024 * 1024.0}, {"GiB", 1024 * 1024 * 1024.0}};
  for (const auto& [name, bytes] : kUnits)
    if (unit == name && number * bytes >= 1 && number * bytes <= static_cast<double>(kMost)) return static_cast<size_t>(number * bytes);
  config.fail("memory_limit", "is no amount of memory", "'" + text + "'", "bytes, or text such as '512MiB' or '2GB'");
}

RecomputeChoice choose_recompute(const Graph& graph, const PlanOptions& options, Mode mode, size_t room,
                                 const std::vector<std::string>& scopes) {
  RecomputeChoice best{.plan = Plan::compile(graph, options)};
  if (mode == Mode::none || (mode == Mode::automatic && best.plan->arena_bytes() <= room)) return best;
  const RecomputeAnalysis analysis(
      graph, [&](const Node& node) { return mode != Mode::layers || std::find(scopes.begin(), scopes.end(), node.scope) != scopes.end(); });
  best.flops = flops_of(graph);
  for (const Variant& variant : variants_of(analysis, mode == Mode::automatic)) {
    auto plan = Plan::compile(analysis.rewrite(variant.dropped), options);
    if (plan->arena_bytes() >= best.plan->arena_bytes()) continue;
    best = {.plan = std::move(plan), .how = variant.how, .added_flops = variant.flops - best.flops, .flops = best.flops};
    if (mode == Mode::automatic && best.plan->arena_bytes() <= room) break;
  }
  return best;
}

}  // namespace perigee
