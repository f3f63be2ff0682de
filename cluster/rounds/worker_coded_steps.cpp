// Standing rounds with a codec: who gives a payload follows from the fixed plan, which every member knows.
#include <cassert>

#include "cluster/membership/worker_impl.h"
#include "cluster/planted.h"

namespace perigee {
namespace {

constexpr int kOwnRefusals = 3;

}  // namespace

// Of the member of that rank, in the round being computed.
int64_t Worker::Impl::planned_examples(size_t at) const {
  const auto [first, last] = leaves_of(static_cast<int>(at), static_cast<int>(members.size()), go->leaves);
  int64_t examples = 0;
  for (int leaf = first; leaf < last; ++leaf) examples += planned.ranges[static_cast<size_t>(leaf)].count;
  return examples;
}

void Worker::Impl::give_payloads(Exchange::Setup* setup) const {
  const size_t coded = setup->layout.coded;
  assert(coded > 0);
  setup->buckets = {{coded, setup->layout.bytes()}};
  for (size_t at = 0; at < members.size(); ++at) setup->gives.push_back(planned_examples(at) > 0);
  if (staged) setup->payload = staged->payload;
}

std::vector<Payload> Worker::Impl::step_payloads() const {
  std::vector<Payload> payloads;
  for (size_t at = 0; at < members.size(); ++at) {
    // Alone there was no exchange: its own payload is all that there is.
    SharedBytes bytes = members.size() == 1 ? staged->payload : exchange.payload(at);
    const size_t of = planted(Bug::step_payload_order) ? members.size() - 1 - at : at;
    if (bytes) payloads.push_back({std::move(bytes), planned_examples(of)});
  }
  return payloads;
}

// The sums of a pass are here: the trainer makes of them what the next one adds up.
void Worker::Impl::ask_for_part() {
  if (!go || !go->standing || !staged || next_part >= replica.layout().passes) return;
  if (!exchange.bucket_done(static_cast<size_t>(next_part) - 1)) {
    if (!planted(Bug::part_not_awaited) || !exchange.active()) return;
  }
  replica.make_part({.round = exchange.round(), .examples = planned.examples, .pass = next_part++});
}

void Worker::Impl::on_part(int64_t round, uint32_t bucket) {
  // The last bucket of a gradient that is still computed is not what it will send.
  if (state != State::running || training || !exchange.active() || exchange.round() != round) return;
  if (bucket == 0 || static_cast<int>(bucket) != next_part - 1 || bucket_staged[bucket]) return;
  progress_ns = clock.now_ns();
  start_bucket(bucket);
  after_exchange();
}

// All who meet it name its sender. Alone, what its own codec cannot read is made anew: it is this machine's memory that is at fault.
void Worker::Impl::blame_step_payload(int64_t round, size_t payload) {
  if (members.size() == 1) {
    if (++refused_alone >= kOwnRefusals)
      return fail(Error(ErrorKind::cluster, {"round " + std::to_string(round), "a payload of this worker's own cannot be read back",
                                             std::to_string(refused_alone) + " times", "", "have the machine's memory checked"}),
                  false);
    stop_work(false);
    return go_on();
  }
  for (size_t at = 0; at < members.size(); ++at)
    if (planned_examples(at) > 0 && payload-- == 0 && members[at].id != id)
      return lose_link(members[at].id, "what it sent in round " + std::to_string(round) + " is no payload of this job's codec", true);
}

}  // namespace perigee
