#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "cluster/codec/codec.h"
#include "cluster/codec/gradient_codec.h"
#include "cluster/codec/parts_codec.h"
#include "cluster/exchange/collective.h"
#include "cluster/exchange/fragment_payload.h"
#include "cluster/exchange/outer_step.h"
#include "cluster/launch/describe_job.h"
#include "cluster/rounds/local/fragments.h"
#include "cluster/rounds/local/inner_plan.h"
#include "cluster/rounds/server/kept_pushes.h"
#include "src/train/trainer.h"

namespace perigee {
namespace {

const std::vector<std::string> kHosts = {"a", "b", "c", "d"};  // of kDescribedWorkers

// Bytes that the busiest of the workers sends: `sums` bytes are added up, `payload` bytes are passed on whole.
double busiest(const TopologyDef& topology, double sums, double payload) {
  double most = 0;
  for (int rank = 0; rank < static_cast<int>(kHosts.size()); ++rank)
    most = std::max(most, topology.bytes_sent(rank, kHosts, sums) + topology.gather_bytes_sent(rank, kHosts, payload));
  return most;
}

// Bytes that one worker sends through a codec: as a payload without its header, or as parts of sums.
struct CodedSize {
  int64_t elements = 0;
  double payload = 0, sums = 0;
};

// The whole block, tensor by tensor; `tensors` holds what it points to.
CodecSegment block_of(const Params& params, std::vector<CodecSegment>* tensors) {
  *tensors = codec_tensors(params.windows());
  return {.count = params.block_elements(), .tensors = tensors->data(), .tensor_count = tensors->size()};
}

CodedSize coded_size(const Policy& policy, const Job& job, const Params& params) {
  CodedSize size;
  if (!policy.coded()) return size;
  std::unique_ptr<Codec> codec = make_codec(&policy.codec, job.where());
  size.elements = policy.coded_steps() ? trainable_elements(params.windows()) : params.block_elements();
  if (policy.adds_parts()) {
    const PartsCodec parts(std::move(codec), params.windows(), params.block_elements(), 0);
    for (const int64_t pass : parts.passes()) size.sums += static_cast<double>(pass) * sizeof(float);
  } else {
    std::vector<CodecSegment> tensors;
    const CodecSegment block = policy.coded_steps() ? CodecSegment{.count = size.elements} : block_of(params, &tensors);
    size.payload = static_cast<double>(size.elements) * codec->bits_per_element(block) / 8;
  }
  return size;
}

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

Json table_of(const Policy& policy, const FragmentPlan& plan, const std::vector<Sizes>& sizes) {
  Json table = Json::array();
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Fragment& f = plan.fragments()[i];
    std::string every = policy.every_ms > 0 ? std::to_string(static_cast<int64_t>(policy.every_ms)) + " ms" : std::to_string(policy.every);
    if (!policy.layers.empty()) every = std::to_string(f.interval * policy.every);
    table.push(Json::Object{{"name", f.name},
                            {"parameters", f.parameters},
                            {"every", every},
                            {"codec", f.codec.is_null() ? "fp32" : f.codec.find("type")->as_string()},
                            {"gain", outer_gain(plan.outers()[f.outer], kDescribedWorkers)},
                            {"sums_bytes", sizes[i].dense},
                            {"sent_bytes", sizes[i].payload > 0 ? sizes[i].payload : sizes[i].dense}});
  }
  return table;
}

// The parts of the parameters that are averaged by themselves, and what a round sends.
Json describe_fragments(const Policy& policy, Trainer& trainer, const std::string& where) {
  Params& params = trainer.model().params();
  const FragmentPlan plan(policy, params.windows(), params.block_elements(), where);
  const std::vector<Sizes> sizes = sizes_of(plan, params.width(), where);
  int64_t cycle = 1, longest = 1;
  for (const Fragment& f : plan.fragments()) {
    cycle = std::min(std::lcm(cycle, f.interval), kRoundsShown);
    longest = std::max(longest, f.interval);
  }
  Sizes most, sum;
  for (int64_t round = 0; round < cycle; ++round) {
    const Sizes sent = sent_in(round, plan, sizes);
    if (sent.dense + sent.payload > most.dense + most.payload) most = sent;
    sum.dense += sent.dense, sum.payload += sent.payload;
  }
  const double beside = static_cast<double>(params.state_bytes().size()), rounds = static_cast<double>(cycle);
  Json bytes = Json::array();
  for (const TopologyDef* topology : all_topologies())
    bytes.push(Json::Object{{"topology", topology->name},
                            {"largest", busiest(*topology, most.dense + beside, most.payload)},
                            {"mean", busiest(*topology, sum.dense + rounds * beside, sum.payload) / rounds}});
  return Json(Json::Object{{"table", table_of(policy, plan, sizes)}, {"bytes", std::move(bytes)}, {"longest_rounds", longest}});
}

std::string groups_of(const Policy::Inner& inner) {
  const std::string size = std::to_string(inner.size) + " workers";
  switch (inner.groups) {
    case Policy::Inner::Groups::blocks: return "groups of " + size + " in the order of their ranks";
    case Policy::Inner::Groups::random: return "groups of " + size + ", drawn anew for each exchange";
    case Policy::Inner::Groups::grid: return "groups of " + size + " along the axes of a grid";
    default: return "the workers of each host, or --site";
  }
}

// Exchanges inside groups; null: there are none. `dense`: bytes of the parameters, `beside`: of what goes with them.
Json describe_inner(const Policy& policy, double dense, double beside, const CodecSegment& segment) {
  const int64_t count = inner_exchanges(policy);
  if (count == 0) return {};
  double bytes = dense;
  std::string what = "parameters";
  if (!policy.inner.codec.is_null()) {
    const double bits = make_codec(&policy.inner.codec, "averaging")->bits_per_element(segment);
    bytes = static_cast<double>(kPayloadHeader) + static_cast<double>(segment.count) * bits / 8;
    what += " as " + policy.inner.codec.find("type")->as_string();
  }
  return Json(Json::Object{{"groups", groups_of(policy.inner)},
                           {"what", what},
                           {"every", policy.inner.every},
                           {"times", count},
                           {"bytes", bytes + beside},
                           {"rounds_share", static_cast<double>(policy.every) / static_cast<double>(policy.inner.every)}});
}

void tell_bytes(const Policy& policy, const CodedSize& coded, Trainer& trainer, Json* told) {
  Params& params = trainer.model().params();
  const double block = static_cast<double>(params.block_bytes());
  const double payload = coded.payload > 0 ? static_cast<double>(kPayloadHeader) + coded.payload : 0;
  double sums = (policy.coded() ? coded.sums : block) + static_cast<double>(params.state_bytes().size());
  if (policy.average_optimizer) sums += block * static_cast<double>(trainer.optimizer_slots());
  Json bytes = Json::array();
  for (const TopologyDef* topology : all_topologies())
    bytes.push(Json::Object{{"topology", topology->name}, {"bytes", busiest(*topology, sums, payload)}});
  told->set("bytes", std::move(bytes));
  std::vector<CodecSegment> tensors;
  Json inner = describe_inner(policy, block, sums - (policy.coded() ? coded.sums : block), block_of(params, &tensors));
  if (!inner.is_null()) told->set("inner", std::move(inner));
}

}  // namespace

Json describe_averaging(const Policy& policy, const Job& job, Trainer& trainer) {
  Json told = describe_policy(policy);
  const Params& params = trainer.model().params();
  const CodedSize coded = coded_size(policy, job, params);
  if (policy.coded() && !policy.partial())
    told.set("codec", Json::Object{{"type", *policy.codec.find("type")},
                                   {"bits", 8 * (coded.payload + coded.sums) / static_cast<double>(std::max<int64_t>(1, coded.elements))}});
  if (policy.served) {
    const double block = static_cast<double>(params.block_bytes()), states = static_cast<double>(params.state_bytes().size());
    const double up = static_cast<double>(kPayloadHeader) + coded.payload + coded.sums;
    const size_t pushes = KeptBound().pushes_of(static_cast<size_t>(up));
    told.set("exchange_bytes", Json::Object{{"up", up}, {"down", policy.elastic ? block : block + states}});
    told.set("kept", Json::Object{{"pushes", static_cast<int64_t>(pushes)}, {"bytes", static_cast<double>(pushes) * up}});
  } else if (policy.partial()) {
    told.set("fragments", describe_fragments(policy, trainer, job.where() + ": averaging"));
  } else {
    tell_bytes(policy, coded, trainer, &told);
  }
  return told;
}

}  // namespace perigee
