#include "repl/commands/describe_fragments.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include "cluster/codec/codec.h"
#include "cluster/exchange/collective.h"
#include "cluster/exchange/fragment_payload.h"
#include "cluster/exchange/outer_step.h"
#include "cluster/rounds/local/fragments.h"
#include "repl/commands/quantity.h"
#include "repl/display/display.h"

namespace perigee {
namespace {

constexpr int64_t kRoundsShown = 10'000;  // of which the busiest is looked for

struct Sizes {
  double dense = 0, payload = 0;  // bytes; payload 0: it goes as sums
};

std::vector<Sizes> sizes_of(const FragmentPlan& plan, size_t width, const std::string& where) {
  std::vector<Sizes> sizes;
  for (const Fragment& f : plan.fragments()) {
    sizes.push_back({.dense = static_cast<double>(f.elements) * static_cast<double>(width)});
    if (f.codec.is_null()) continue;
    sizes.back().payload = static_cast<double>(kFragmentChangeHead + kPayloadHeader) +
                           make_codec(&f.codec, where)->bits_per_element(f.segment()) * static_cast<double>(f.elements) / 8;
  }
  return sizes;
}

// By which way bytes go in a round: added up, and as payloads.
Sizes sent_in(int64_t round, const FragmentPlan& plan, const std::vector<Sizes>& sizes) {
  Sizes sent;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (plan.fragments()[i].due(round, false))
      (sizes[i].payload > 0 ? sent.payload : sent.dense) += sizes[i].payload > 0 ? sizes[i].payload : sizes[i].dense;
  return sent;
}

void print_table(const Policy& policy, const FragmentPlan& plan, const std::vector<Sizes>& sizes) {
  size_t name = 8;
  for (const Fragment& f : plan.fragments()) name = std::max(name, f.name.size());
  std::printf("%-*s  %12s  %10s  %-10s  %6s  %12s  %12s\n", static_cast<int>(name), "fragment", "parameters", "every", "codec", "gain",
              "as sums", "sent");
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Fragment& f = plan.fragments()[i];
    std::string every = policy.every_ms > 0 ? std::to_string(static_cast<int64_t>(policy.every_ms)) + " ms" : std::to_string(policy.every);
    if (!policy.layers.empty()) every = std::to_string(f.interval * policy.every);
    std::printf("%-*s  %12s  %10s  %-10s  %6.3g  %12s  %12s\n", static_cast<int>(name), f.name.c_str(), grouped(f.parameters).c_str(),
                every.c_str(), f.codec.is_null() ? "fp32" : f.codec.find("type")->as_string().c_str(),
                outer_gain(plan.outers()[f.outer], 4), amount_text(sizes[i].dense).c_str(),
                amount_text(sizes[i].payload > 0 ? sizes[i].payload : sizes[i].dense).c_str());
  }
}

}  // namespace

std::string overlap_text(const Policy& policy) {
  std::string text;
  if (policy.overlap) text += ", workers train on meanwhile";
  if (policy.late > 0) text += " and take a result after " + std::to_string(policy.late) + (policy.late == 1 ? " step" : " steps");
  char keep[64];
  std::snprintf(keep, sizeof keep, ", %.3g %% of their own parameters stay", 100 * policy.keep);
  return policy.keep > 0 ? text + keep : text;
}

void describe_fragments(const Policy& policy, Trainer& trainer, const std::string& where) {
  Params& params = trainer.model().params();
  const FragmentPlan plan(policy, params.windows(), params.block_elements(), where);
  const std::vector<Sizes> sizes = sizes_of(plan, params.width(), where);
  print_table(policy, plan, sizes);
  int64_t cycle = 1;
  for (const Fragment& f : plan.fragments()) cycle = std::min(std::lcm(cycle, f.interval), kRoundsShown);
  Sizes most, sum;
  for (int64_t round = 0; round < cycle; ++round) {
    const Sizes sent = sent_in(round, plan, sizes);
    if (sent.dense + sent.payload > most.dense + most.payload) most = sent;
    sum.dense += sent.dense, sum.payload += sent.payload;
  }
  const std::vector<std::string> hosts = {"a", "b", "c", "d"};
  const double beside = static_cast<double>(params.state_bytes().size());
  const auto busiest = [&](const TopologyDef& topology, const Sizes& sent, double rounds) {
    double bytes = 0;
    for (int rank = 0; rank < 4; ++rank)
      bytes = std::max(
          bytes, topology.bytes_sent(rank, hosts, sent.dense + rounds * beside) + topology.gather_bytes_sent(rank, hosts, sent.payload));
    return bytes;
  };
  std::printf("bytes that the busiest of 4 workers sends in the largest round, and in the mean:");
  for (const TopologyDef* topology : all_topologies())
    std::printf(" %s %s, %s%s", topology->name, amount_text(busiest(*topology, most, 1)).c_str(),
                amount_text(busiest(*topology, sum, static_cast<double>(cycle)) / static_cast<double>(cycle)).c_str(),
                topology == all_topologies().back() ? "\n" : ";");
  int64_t longest = 1;
  for (const Fragment& f : plan.fragments()) longest = std::max(longest, f.interval);
  if (longest > 1)
    std::printf(
        "accounting: bounded: what a lost worker did of a fragment since that was last averaged, at most %lld rounds, is lost though "
        "counted; the run's last round averages all\n",
        static_cast<long long>(longest - 1));
}

}  // namespace perigee
