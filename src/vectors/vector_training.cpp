#include "src/vectors/vector_training.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "src/core/host_isa.h"
#include "src/core/thread_team.h"
#include "src/vectors/jobs/vector_course.h"
#include "src/vectors/progress_clock.h"
#include "src/vectors/subwords_of.h"

namespace perigee {
namespace {

constexpr uint64_t kFirstVectorTrainingValues = 0x776F7264;  // the stream of draws of first values

// Evenly between -1/size and 1/size, a pure function of (seed, row).
void draw_row(uint64_t seed, int64_t row, int64_t size, float* values) {
  const PhiloxKey key = philox_key(seed, kFirstVectorTrainingValues);
  const float reach = 1 / static_cast<float>(size);
  for (int64_t i = 0; i < size; i += 4) {
    const PhiloxBlock block = philox_for_example(key, 0, static_cast<uint64_t>(row), static_cast<uint32_t>(i / 4));
    for (int64_t k = 0; k < 4 && i + k < size; ++k) values[i + k] = (uniform_from_bits(block.lane[k]) * 2 - 1) * reach;
  }
}

}  // namespace

VectorTraining::VectorTraining(const ElementTable& elements, int64_t labels, const VectorOptions& options)
    : elements_(elements), options_(options), labels_(labels), loops_(pair_loops(host_isa())) {
  if (elements.size() < 2)
    throw Error(ErrorKind::data, {.what = "there are too few different elements to tell apart",
                                  .got = std::to_string(elements.size()),
                                  .expected = "at least 2",
                                  .hint = "a smaller min_count leaves more words in"});
  if (options.least_subword > 0) make_subwords();
  inputs_ = VectorRows(elements.size() + labels + (has_subwords() ? options.buckets : 0), options.size);
  if (options.negative > 0) noise_ = noise_table(elements, options.noise_exponent), tree_row_ = elements.size();
  if (options.hierarchical) tree_ = HuffmanTree(elements);
  outputs_ = VectorRows(tree_row_ + (options.hierarchical ? tree_.inner() : 0), options.size);
  assert(tree_.longest() + 1 + options.negative <=
         kMaxPairOutputs);  // ways are shorter than 92: counts are of 63 bits, and grow as Fibonacci's numbers
  keep_ = keep_chances(elements, options.sample);
  for (int64_t row = 0; row < inputs_.rows; ++row) draw_row(options.seed, row, options.size, inputs_.row(row));
}

void VectorTraining::make_subwords() {
  row_begins_.push_back(0);
  for (int64_t i = 0; i < elements_.size(); ++i) {
    each_subword(elements_.name(i), options_.least_subword, options_.longest_subword, [&](std::string_view subword) {
      rows_.push_back(static_cast<int32_t>(elements_.size() + labels_ + subword_bucket(subword, options_.buckets)));
    });
    row_begins_.push_back(rows_.size());
  }
}

bool VectorTraining::run(const Sequences& sequences, const Report& report, const std::atomic<bool>* stop, double reports_a_second) {
  const int64_t parts = sequences.parts();
  ThreadTeam team(static_cast<int>(std::clamp<int64_t>(options_.threads, 1, std::max<int64_t>(1, parts))));
  ProgressClock clock(sequences.before(parts) * options_.epochs, reports_a_second);
  std::atomic<int64_t> done{0};
  VectorWorkers workers(static_cast<size_t>(team.size()));
  for (auto& worker : workers) worker = std::make_unique<VectorWorker>(*this, options_, sequences);
  VectorCourse course;
  course.works = parts * options_.epochs;
  course.open = [&](VectorWorker& worker, int64_t work) { worker.open(static_cast<uint64_t>(work / parts), work % parts); };
  course.look = [&](VectorWorker& worker, int rank) {
    done += worker.take_read();
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) course.stopped = true;
    if (rank == 0 && report && !course.stopped && clock.due()) report(clock.at(done, worker.rate(), worker.take_loss().mean()));
  };
  // Nothing of it throws: sequences were read once before, when their elements were counted.
  run_course(team, workers, course, options_.deterministic && team.size() > 1);
  if (report && !course.stopped) report(clock.at(done, options_.min_lr, workers[0]->take_loss().mean()));
  return !course.stopped;
}

void VectorTraining::finish() {
  if (!has_subwords()) return;
  std::vector<const float*> parts;
  for (int64_t i = 0; i < elements_.size(); ++i) {
    parts.clear();
    each_row(i, [&](int64_t row) { parts.push_back(inputs_.row(row)); });
    loops_.sum(parts.data(), static_cast<int64_t>(parts.size()), inputs_.width, 1 / static_cast<float>(parts.size()), inputs_.row(i));
  }
}

std::vector<float> VectorTraining::infer(std::span<const int32_t> elements, int64_t epochs, double lr, uint64_t seed) const {
  SequenceBlock block;
  block.elements.assign(elements.begin(), elements.end());
  block.ends.push_back(block.elements.size());
  block.labels.push_back(0);
  VectorOptions options = options_;
  options.epochs = epochs, options.lr = lr, options.seed = seed, options.words_too = false, options.min_lr = std::min(lr, options.min_lr);
  const auto sequences = held_sequences(block);
  VectorRows document(1, options_.size);
  draw_row(seed, INT32_MAX, options_.size, document.row(0));
  VectorWorker worker(*this, options, *sequences);
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    worker.open(static_cast<uint64_t>(epoch), 0);
    worker.infer(document.row(0));
  }
  return {document.row(0), document.row(0) + options_.size};
}

}  // namespace perigee
