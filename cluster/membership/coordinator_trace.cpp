// The coordinator's part of a timeline: workers' spans with their clocks' offsets, and its own phases.
#include <cassert>

#include "cluster/membership/coordinator_core.h"

namespace perigee {
namespace {

constexpr size_t kMaxHeldSpans = 8 * kMaxTraced;  // of a worker whose clock is not well known yet

}  // namespace

void CoordinatorCore::on_traced(WorkerId id, const Traced& traced) {
  const auto found = timelines.find(id);
  if (found == timelines.end()) {
    ++dropped.unexpected;
    return;
  }
  Timeline& timeline = found->second;
  timeline.dropped = traced.dropped;
  for (const TracedSpan& s : traced.spans) {
    if (s.phase >= kTracePhases || s.row == 0 || s.end_ns < s.begin_ns) {
      ++dropped.malformed;
      continue;
    }
    if (timeline.spans.size() >= kMaxHeldSpans) {
      timeline.told_dropped -= 1;  // it is one more that is missing
      continue;
    }
    timeline.spans.push_back({.begin_ns = s.begin_ns,
                              .end_ns = s.end_ns,
                              .round = s.round,
                              .count = s.count,
                              .phase = static_cast<TracePhase>(s.phase),
                              .row = s.row});
  }
  if (timeline.clock.settled() || (phase == Phase::stopped && timeline.clock.known())) tell_spans(id);
}

void CoordinatorCore::tell_spans(WorkerId id) {
  Timeline& timeline = timelines.at(id);
  assert(timeline.clock.known());
  events.on_trace({.id = id,
                   .name = timeline.name,
                   .offset_ns = timeline.clock.ns(),
                   .error_ns = timeline.clock.error_ns(),
                   .clock_moved = timeline.moved,
                   .dropped = timeline.dropped - timeline.told_dropped,
                   .spans = timeline.spans});
  timeline.moved = false;
  timeline.told_dropped = timeline.dropped;
  timeline.spans.clear();
}

void CoordinatorCore::tell_round(const Figures& figures, int64_t examples, const std::vector<Share>& shares) {
  constexpr size_t kMostShares = 64;  // in one line of the trace
  Json each = Json::object();
  for (const Share& share : shares)
    if (each.as_object().size() < kMostShares) each.set(nodes.at(share.id).name, share.examples);
  const uint64_t now = clock.now_ns();
  const Json args = Json(Json::Object{{"round", open},
                                      {"generation", static_cast<int64_t>(generation)},
                                      {"examples", examples},
                                      {"bytes", static_cast<int64_t>(figures.bytes_up)},
                                      {"shares", std::move(each)}});
  events.on_span("round", opened_ns, now, args);
  events.on_span("commit", now, now, Json(Json::Object{{"round", open}, {"generation", static_cast<int64_t>(generation)}}));
}

void CoordinatorCore::tell_formed() {
  events.on_span(
      "forming", forming_since_ns, clock.now_ns(),
      Json(Json::Object{
          {"generation", static_cast<int64_t>(generation)}, {"workers", static_cast<int64_t>(members.size())}, {"base", target_round}}));
}

void CoordinatorCore::tell_evaluated() {
  const uint64_t now = clock.now_ns();
  events.on_span("evaluation", border_ns, now, Json(Json::Object{{"epoch", static_cast<int64_t>(border.value_or(0)) + 1}}));
  opened_ns = now;  // the round begins when they train on
}

}  // namespace perigee
