// The worker protocol's demands on the trainer. The real one hands each request to the trainer thread; the simulator's is a
// few floats. Requests are made on the loop thread and return at once; each is answered once, later, on the loop thread, in order.
// After drop(), load() without keep_local, or a new train(), nothing more is reported of the training order before it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/protocol/message.h"
#include "kernels/view.h"
#include "src/core/error.h"

namespace perigee {

using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

// The sums of an exchange: `sums` elements of type `dtype` by addition, then `maxima` int64 elements by maximum. The last sums count
// what is summed (exchange_tail.h). An even number of sums, so that the maxima are aligned. With a codec, announced rounds add up only what
// lies behind `coded`; what stands before it each worker sends as a payload.
struct ExchangeLayout {
  int64_t sums = 0;
  int64_t maxima = 0;
  Dtype dtype = Dtype::f32;  // f32 or f64: the network's
  size_t coded = 0;          // bytes; 0: no codec
  size_t payload_bound = 0;  // bytes of the largest payload
  int passes = 1;            // of gradients: sums one after another, a bucket each; what the next adds up is made of those before it
  bool repeated = false;     // each of the whole row; `passes` is how many there may be, and the replica says when there is none more
  size_t values = 0;         // bytes of parameters and states as a server tells them
  size_t width() const { return dtype_bytes(dtype); }
  size_t sum_bytes() const { return static_cast<size_t>(sums) * width(); }
  size_t bytes() const { return sum_bytes() + static_cast<size_t>(maxima) * sizeof(int64_t); }
};

// Part of the exchange that becomes ready on its own, in bytes; buckets are numbered in the order in which they become ready. They cover the row
// without overlap, or are each the whole of it (ExchangeLayout::repeated).
struct Bucket {
  size_t begin = 0, end = 0;
};

// Part of a row that has rounds of its own (fragments.h): only where it is due is it exchanged.
struct FragmentPart {
  size_t begin = 0, end = 0;  // bytes of the row
  bool coded = false;         // in a payload; else added up
  int64_t interval = 1, phase = 0;
  bool due(int64_t round) const { return round % interval == phase; }
};

// A subtree of the fixed summation tree over all shards: leaves [first, first + count).
struct Partial {
  int32_t first = 0, count = 1;
};

struct TrainOrder {
  int64_t round = 0;
  bool gradient = false;  // one gradient over all ranges, no update; else local steps, one per range
  // Gradient: one per leaf of the summation tree, from `first_leaf`. None, in a policy of fragments: what there is of local work is staged.
  std::vector<Range> ranges;
  std::vector<Range> next;             // what the order after this one will probably begin with: to be read ahead
  int32_t first_leaf = 0, leaves = 1;  // leaves of all workers together
  // Local steps, of a policy with overlap: the contribution before is still on its way. This one is staged when that is in a result, or is
  // part of this one (unstage).
  bool overlapped = false;
  size_t row = 0;                 // local steps: where the contribution is staged; another one than that of the contribution before
  double stop_after_ms = 0;       // local steps: end after the step that passes this; the rest of the ranges comes back untouched
  int64_t examples_before = 0;    // committed before, by all: the schedules' progress
  int64_t examples_per_step = 0;  // what all workers together train in the time of one local step
  bool restart = false;           // gradient: the first of a membership; what all workers' codecs have in common begins anew
  // A policy with inner exchanges cuts a round's local steps into several orders. Each may be without ranges: then only what there is is
  // staged.
  int64_t carried = 0;  // examples that were trained for the same round before: they count in what is staged
  bool inner = false;   // stage for an exchange inside a group, in the inner layout, instead of for the round
};

struct Contribution {
  int64_t round = 0;       // of the order
  int64_t staged_for = 0;  // fragments: the round whose fragments are staged; not the order's where it was overtaken by an image
  int64_t examples = 0, steps = 0;
  bool finite = true;
  std::vector<Range> ranges;      // trained
  std::vector<Partial> partials;  // rows of the exchange block; one row for local steps
  Figures figures;
  Norms norms;          // local steps
  SharedBytes payload;  // local steps, with a codec: what stands for the coded part of the row
};

// One worker's payload in a coded round, and the work that it stands for.
struct Payload {
  SharedBytes bytes;
  int64_t examples = 0;
};

// Row 0 holds the sums of all passes before `pass`, over `examples` examples.
struct PartOrder {
  int64_t round = 0, examples = 0;
  int pass = 1;
};

// `row` holds the merged sums of `examples` examples (0: the parameters stay).
struct ApplyOrder {
  int64_t round = 0;
  size_t row = 0;
  int64_t examples = 0, examples_after = 0;
  bool alone = false;             // no other took part, the local parameters are the result bit for bit
  bool last = false;              // of the run: every fragment is due
  std::vector<Payload> payloads;  // coded rounds: of all who have examples, in the order of the ranks
  // Served rounds:
  double staleness = 0;  // of the payloads, their mean by examples
  int64_t workers = 0;   // that train
};

// The result that a worker takes over from the parameter server.
struct TakeOrder {
  int64_t round = 0;
  int64_t examples_after = 0;
  bool counted = false;  // its contribution is in the result; otherwise it is given up
  bool change = false;   // of the server's parameters: the worker's move against it. Else parameters and states, in place of its own
  SharedBytes bytes;     // null: the result is not known here, it is only said what became of the contribution
};

// Row 0 holds the merged sums of a group, which say of how many examples.
struct InnerApplyOrder {
  int64_t round = 0, index = 0;
  std::vector<SharedBytes> payloads;  // with a codec: of the whole group, in the order of the ranks
};

class ReplicaEvents {
 public:
  virtual ~ReplicaEvents() = default;
  virtual void on_opened(uint64_t fingerprint) = 0;
  virtual void on_loaded(int64_t round, uint64_t hash) = 0;
  // Its bytes are staged; only for gradient orders, before on_contribution, or after make_part.
  virtual void on_bucket(int64_t round, uint32_t bucket) = 0;
  virtual void on_parts_over(int64_t /*round*/) {}  // instead of on_bucket, after make_part: nothing more is to be added up
  virtual void on_contribution(const Contribution& contribution) = 0;
  virtual void on_applied(int64_t round, uint64_t hash) = 0;
  // Instead of on_applied: that payload is none of the policy's codec. Nothing has changed; the contribution is still staged.
  virtual void on_payload_refused(int64_t round, size_t payload) = 0;
  // `reply`: as in TakeOrder, for a worker that has contributed (`change`: of elastic rounds), or the parameters of the result held.
  virtual void on_served(int64_t /*round*/, uint64_t /*hash*/, SharedBytes /*reply*/, bool /*change*/) {}
  virtual void on_taken(int64_t /*round*/, bool /*ok*/) {}  // not ok: these are no bytes of this network; nothing has changed
  // Local values are the mean of the group; the result held is what it was. `refused` >= 0: that payload is none of the codec, nothing has
  // changed.
  virtual void on_inner_applied(int64_t round, int64_t index, int refused) = 0;
  virtual void on_snapshot(uint64_t request, int64_t round, uint64_t hash, SharedBytes image) = 0;  // null: it could not be made
  virtual void on_evaluated(uint64_t request, std::string state) = 0;                               // JSON
  // The trainer has stopped for good. `for_all`: another worker would meet the same.
  virtual void on_failed(const Error& error, bool for_all) = 0;
};

class Replica {
 public:
  virtual ~Replica() = default;
  // Builds the trainer from Welcome. -> on_opened
  virtual void open(const Welcome& welcome) = 0;

  // The exchange's memory: `rows` blocks of layout().bytes(), 64-byte aligned. It is the replica's from train() until on_contribution
  // (a bucket: until its on_bucket), then the protocol's until apply(), drop() or train().
  virtual ExchangeLayout layout() const = 0;
  virtual const std::vector<Bucket>& buckets() const = 0;
  virtual ExchangeLayout inner_layout() const = 0;  // of the same rows, when they are staged for an inner exchange
  virtual std::span<std::byte> exchange_row(size_t row) = 0;
  // Ascending and without gaps, from the row's begin; what stands behind them is of every round. None: all is of every round. With them
  // a payload is that of fragment_payload.h.
  virtual std::span<const FragmentPart> fragments() const { return {}; }

  // JSON of a number or a schedule, in place of the job's from the next order on; empty: the job's again. No answer. Not while it applies.
  virtual void set_options(const std::string& /*settings*/) {}
  // -> on_contribution; none comes, not even one that was on its way, once the order is given up (drop, load, another train). Local work
  // goes on from the local parameters; a gradient is of the result held.
  virtual void train(const TrainOrder& order) = 0;
  // With layout().passes > 1, after on_contribution -> on_bucket with the pass's number, or on_parts_over; none comes once the order is given up.
  virtual void make_part(const PartOrder& order) = 0;
  // -> on_applied with the hash (XXH3-64) of the parameters and states, equal on every worker.
  virtual void apply(const ApplyOrder& order) = 0;
  // The server of a served policy: what lies beside the payloads is in exchange_row(0), from layout().coded on. Order.round the one held
  // and no payloads: only tells the parameters. -> on_served, or on_payload_refused
  virtual void serve(const ApplyOrder& order) = 0;
  virtual void take(const TakeOrder& order) = 0;  // -> on_taken
  // -> on_inner_applied, even when the local work has been dropped meanwhile.
  virtual void apply_inner(const InnerApplyOrder& order) = 0;
  // Initial values when `image` is null. `keep_local`: the local work since the last result is moved onto the new base (w += x_new - x_old).
  // Ends a training order in progress unless keep_local; then a contribution that is staged is staged anew before -> on_loaded.
  // An image that cannot be used changes nothing: on_loaded then tells the round and hash held before.
  virtual void load(int64_t round, SharedBytes image, bool keep_local) = 0;
  // A snapshot of the last result, without later local work. -> on_snapshot
  virtual void snapshot(uint64_t request, bool with_optimizer) = 0;
  virtual void evaluate(const Evaluate& order) = 0;  // of the last result -> on_evaluated
  // With fragments(): what is staged is staged no more; it is part of the next contribution. No answer.
  virtual void unstage() {}
  // Gives up a training order or a contribution: its ranges go back, the parameters to the last result. No answer.
  virtual void drop() = 0;
  virtual int64_t steps() const = 0;                                 // local steps made so far; any time
  virtual int64_t evaluated() const = 0;                             // examples, so far; any time
  virtual std::vector<DataPrint> data_prints() const { return {}; }  // after on_opened: what the fingerprint is made of
  virtual bool waits_for_examples() const { return false; }          // that come from elsewhere; any time
};

}  // namespace perigee
