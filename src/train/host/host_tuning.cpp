// Measures before the first step on the host: kernels, then how many examples a thread takes through the plan at once.
#include <algorithm>
#include <cstring>

#include "src/core/stopwatch.h"
#include "src/io/digest.h"
#include "src/io/file.h"
#include "src/tensor/bytes.h"
#include "src/train/host/host_engine.h"

namespace perigee {
namespace {

// Measuring chooses this for most small convolutional networks.
constexpr int64_t kUnmeasuredSubBatch = 32;

}  // namespace

int HostEngine::measure(Loader& loader) {
  measured_ = 0;
  sub_batch_ = t_.options.sub_batch;
  if (t_.options.measure && t_.options.backend == Backend::cpu) {
    // Kernels are compared on the first batch: what a sparse one costs depends on the gradients.
    with_first_batch(t_, loader, std::min<int64_t>(most_at_once(), 32), [&](const Batch& batch) {
      tune_kernels(batch);
      if (cut_) lengths_ = cut_->sorted_lengths(batch);
    });
    if (measured_ > 0) build();
  }
  if (sub_batch_ <= 0) choose_sub_batch();
  if (t_.options.measure && measured_ > 0) t_.tuning.save_machine();
  for (const auto& slice : slices_) std::memset(slice->gradient.data(), 0, slice->gradient.bytes());
  return measured_;
}

void HostEngine::tune_kernels(const Batch& batch) {
  set_seed(batch.size);
  const int64_t rows = std::min<int64_t>(batch.size, 32);
  PlanRun& run = slices_[0]->memory->at(rows);
  bind_rows(bind_plan(run), batch, 0);
  const StepInfo info{.seed = t_.seed, .example_ids = batch.ids.data(), .training = true};
  const int64_t slice = std::max<int64_t>(rows, batch.size / (sliceable_ ? t_.team.size() : 1));
  const double packs_per_run = static_cast<double>(rows) / static_cast<double>(slice);
  measured_ = tune(run, {.backend = t_.options.backend}, info, packs_per_run, t_.tuning);
}

void HostEngine::choose_sub_batch() {
  const int64_t slice = sliceable_ ? (most_at_once() + t_.team.size() - 1) / t_.team.size() : most_at_once();
  sub_batch_ = slice;
  if (collective_ || !sliceable_ || slice <= 8) return;
  if (plans_->slices().whole_slice) {
    while (sub_batch_ > 1 && plans_->plan(sub_batch_)->arena_bytes() > plans_->room()) sub_batch_ = (sub_batch_ + 1) / 2;
    return;
  }
  // Part of the tuning table: it decides in which order examples are summed, so two runs must choose alike. "finely": the table of a machine
  // may have a choice under " cut " that was made without sub-batches of 4 and 2.
  const std::string key = "sub-batch of " + std::to_string(slice) + (cut_ ? " cut finely " : " ") +
                          xxh3_hex(as_bytes(t_.job.canonical().find("network")->dump()));
  if (const std::string known = t_.tuning.choice(key); !known.empty()) {
    sub_batch_ = std::clamp<int64_t>(std::atoll(known.c_str()), 1, slice);
    return;
  }
  if (!t_.options.measure || t_.model->params().dtype() != Dtype::f32) {  // reference kernels gain nothing from it
    sub_batch_ = std::min(kUnmeasuredSubBatch, slice);
    return;
  }
  sub_batch_ = fastest_sub_batch(slice);
  t_.tuning.set(key, std::to_string(sub_batch_));
  ++measured_;
}

// Small ones keep activations in L2 and have less padding, large ones reuse weights. Examples of zeros will do.
int64_t HostEngine::fastest_sub_batch(int64_t slice) {
  PlanMemory& memory = *slices_[0]->memory;
  size_t largest = sizeof(float);
  for (const Field& field : t_.source->fields()) largest = std::max(largest, byte_size(field));
  for (const CarriedSpec& spec : t_.model->carried()) largest = std::max(largest, byte_size(spec.row));
  Storage zeros(largest * static_cast<size_t>(slice) + 64);
  std::memset(zeros.data(), 0, zeros.bytes());
  int64_t chosen = slice;
  double best = 0;
  for (int64_t size : {slice, int64_t{64}, int64_t{32}, int64_t{16}, int64_t{8}, int64_t{4}, int64_t{2}}) {
    if (size < 8 && !cut_) break;  // less padding is all that they can gain
    if (size > slice || (size == slice && best > 0) || plans_->plan(size)->arena_bytes() > plans_->room()) continue;
    PlanRun& run = memory.at(size);
    for (size_t i = 0; i < run.plan().inputs().size(); ++i) run.set_input(static_cast<int>(i), zeros.data());
    const StepInfo info{.seed = t_.seed, .training = true};
    run.pack();
    run.run(nullptr, info);
    double fastest = 1e30;
    for (int repeat = 0; repeat < 9; ++repeat) {
      const double begin = thread_seconds();
      for (int64_t done = 0; done < slice; done += size) run.run(nullptr, info, done > 0);
      fastest = std::min(fastest, thread_seconds() - begin);
    }
    if (cut_) fastest *= cut_->share(lengths_, size);
    const double rate = static_cast<double>((slice + size - 1) / size * size) / fastest;
    if (rate > best * 1.02) {
      best = rate;
      chosen = size;
    }
  }
  return chosen;
}

}  // namespace perigee
