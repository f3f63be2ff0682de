#include "src/train/host/sparse_rows.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "src/graph/choosing.h"

namespace perigee {
namespace {

// So many steps are remembered; then every row makes those that it missed, which is one dense update in so many steps.
constexpr uint32_t kMostSteps = 256;

constexpr uint32_t kBits = 64;

}  // namespace

// Why all rows must be updated in every step; empty: they need not be.
std::string SparseRows::obstacle(const TrainingSetup& training, const ParamWindow& window) {
  if (training.objective) return "the job has several objectives";
  if (training.scale) return "the precision needs a loss scale";
  if (training.optimizer->programmed()) return "the optimiser is a rule of the job's own";
  if (training.optimizer->minimizer()) return std::string(training.optimizer->type()) + " searches along lines";
  if (training.optimizer->has_constraints()) return "the job has constraints";
  if (training.optimizer->lookahead()) return "lookahead moves all parameters";
  if (window.elements / window.shape[0] > kUpdateChunk) return "its rows have more than " + std::to_string(kUpdateChunk) + " features";
  return "";
}

std::unique_ptr<SparseRows> SparseRows::of(TrainingSetup& training, const PlanSet& plans) {
  const std::vector<ParamWindow>& windows = training.model->params().windows();
  if (std::ranges::all_of(windows, [](const ParamWindow& window) { return window.rows == RowUpdate::dense || !window.trainable; }))
    return nullptr;
  auto made = std::make_unique<SparseRows>(training);
  const std::vector<NetworkInput> fields = fields_of(training.model->spec(), true);
  const std::vector<RowGradient> gradients = plans.row_gradients();
  for (size_t i = 0; i < windows.size(); ++i) {
    const ParamWindow& window = windows[i];
    if (window.rows == RowUpdate::dense || !window.trainable) continue;
    std::string why = obstacle(training, window);
    const auto gradient = std::ranges::find(gradients, "grad:" + window.name, &RowGradient::output);
    const auto field = gradient == gradients.end() ? fields.end() : std::ranges::find(fields, gradient->input, &NetworkInput::name);
    if (why.empty() && field == fields.end())
      why = "its gradient does not go by the numbers of one field: another layer uses the table too";
    if (why.empty()) {
      const auto source = static_cast<size_t>(training.read_fields[static_cast<size_t>(field - fields.begin())]);
      Table table{.window = i, .begin = window.offset, .width = window.elements / window.shape[0], .count = window.shape[0]};
      table.how = window.rows, table.output = gradient->output, table.field = source, table.low = gradient->low;
      table.numbers = training.source->fields()[source].shape.elements();
      table.marks.resize(static_cast<size_t>(table.count) / kBits + 1);
      const auto most = static_cast<size_t>(std::min(table.count, table.numbers * training.batch));
      table.rows.reserve(most), table.before.reserve(most);
      if (table.how == RowUpdate::exact) table.steps.resize(kMostSteps), table.made.resize(static_cast<size_t>(table.count));
      made->zeros_.resize(std::max(made->zeros_.size(), training.bytes_of(table.width)));
      made->tables_.push_back(std::move(table));
    } else if (window.rows == RowUpdate::lazy) {
      throw Error(ErrorKind::model, {.where = training.job.where() + ": rows of '" + window.name + "'",
                                     .what = "cannot be updated lazily: " + why,
                                     .hint = "rows = \"dense\""});
    }
  }
  made->quiet_.resize(training.optimizer->needs_norms() ? training.optimizer->pieces().size() : 0);
  return made->tables_.empty() ? nullptr : std::move(made);
}

std::vector<std::string> SparseRows::outputs() const {
  std::vector<std::string> names;
  for (const Table& table : tables_) names.push_back(table.output);
  return names;
}

void SparseRows::mark(Table& table, const Batch& batch) {
  std::swap(table.rows, table.before);
  table.rows.clear();
  if (batch.size == 0) return;
  for_each_chosen(batch.fields[table.field].view(), batch.size * table.numbers, table.low, table.count, [&](int64_t, int64_t row) {
    table.marks[static_cast<size_t>(row) / kBits] |= uint64_t{1} << static_cast<uint64_t>(row) % kBits;
  });
  for (size_t word = 0; word < table.marks.size(); ++word) {
    for (uint64_t bits = table.marks[word]; bits != 0; bits &= bits - 1)
      table.rows.push_back(static_cast<int32_t>(word * kBits + static_cast<size_t>(__builtin_ctzll(bits))));
    table.marks[word] = 0;
  }
}

void SparseRows::arrange(const Batch& batch) {
  clear_all_ = anywhere_, anywhere_ = false;
  for (Table& table : tables_) mark(table, batch);
}

void SparseRows::catch_up(int rank, int size) {
  for (Table& table : tables_) {
    if (table.recorded == 0) continue;
    const bool all = table.recorded == kMostSteps;  // the next one needs room
    const auto n = all ? table.count : static_cast<int64_t>(table.rows.size());
    for (int64_t i = n * rank / size; i < n * (rank + 1) / size; ++i) make_up(table, all ? i : table.rows[static_cast<size_t>(i)]);
  }
}

void SparseRows::clear(int rank, std::byte* gradient) const {
  for (const Table& table : tables_) {
    if (clear_all_ && rank == 0) {
      std::memset(gradient + t_.bytes_of(table.begin), 0, t_.bytes_of(table.count * table.width));
      continue;
    }
    for (const int32_t row : table.before) std::memset(gradient + t_.bytes_of(table.row(row).begin), 0, t_.bytes_of(table.width));
  }
}

bool SparseRows::zero(const std::byte* values, int64_t elements) const {
  return std::memcmp(values, zeros_.data(), t_.bytes_of(elements)) == 0;
}

bool SparseRows::unused(const Table& table, Optimizer::Range row) const {
  return std::ranges::all_of(t_.slots, [&](const Storage& slot) { return zero(slot.data() + t_.bytes_of(row.begin), table.width); });
}

void SparseRows::make_up(Table& table, int64_t row) {
  uint32_t& made = table.made[static_cast<size_t>(row)];
  if (made >= table.past) return;
  const Optimizer::Range range = table.row(row);
  const bool fresh = unused(table, range);
  for (uint32_t step = made; step < table.past; ++step)
    if (!fresh || table.steps[step].moves_unused)
      t_.optimizer->replay(table.window, table.steps[step].params, range, t_.model->params().block(), zeros_.data(),
                           t_.slot_pointers.data());
  made = table.past;
}

void SparseRows::record(Table& table) {
  if (table.recorded == kMostSteps) {
    for (int64_t row = 0; row < table.count; ++row) make_up(table, row);
    std::ranges::fill(table.made, 0);
    table.recorded = table.past = 0;
  }
  // States of one half stand for all that are not zero: no rule leaves them alone by chance.
  const Optimizer& optimizer = *t_.optimizer;
  const bool moves_unused = !optimizer.rests(table.window, 0);
  if (!moves_unused && optimizer.rests(table.window, 0.5)) return;
  table.steps[table.recorded++] = {optimizer.window_params()[table.window], moves_unused};
}

void SparseRows::find_quiet(const Table& table) {
  if (quiet_.empty()) return;
  const std::vector<UpdatePiece>& pieces = t_.optimizer->pieces();
  const auto first = std::ranges::find(pieces, static_cast<int>(table.window), &UpdatePiece::window) - pieces.begin();
  const int64_t piece = pieces[static_cast<size_t>(first)].end - pieces[static_cast<size_t>(first)].begin;
  const auto at = [&](int64_t element) { return static_cast<size_t>(first + (element - table.begin) / piece); };
  std::fill(quiet_.begin() + first, quiet_.begin() + static_cast<std::ptrdiff_t>(at(table.end() - 1)) + 1, whole_ ? 0 : 1);
  for (const int32_t row : table.rows)
    for (size_t i = at(table.row(row).begin); i <= at(table.row(row).end - 1); ++i) quiet_[i] = 0;
}

void SparseRows::begin_update(bool whole) {
  whole_ = whole;
  for (Table& table : tables_) {
    if (table.how == RowUpdate::exact) record(table);
    find_quiet(table);
  }
}

void SparseRows::end_update() {
  for (Table& table : tables_) table.past = table.recorded;
}

void SparseRows::settle() {
  for (Table& table : tables_)
    for (int64_t row = 0; table.recorded > 0 && row < table.count; ++row) make_up(table, row);
}

void SparseRows::forget() {
  for (Table& table : tables_) {
    std::ranges::fill(table.made, 0);
    table.recorded = table.past = 0;
  }
}

size_t SparseRows::bytes() const {
  size_t sum = zeros_.size() + quiet_.size();
  for (const Table& table : tables_)
    sum += table.marks.size() * sizeof(uint64_t) + (table.rows.capacity() + table.before.capacity() + table.made.size()) * sizeof(int32_t) +
           table.steps.size() * sizeof(Table::Missed);
  return sum;
}

}  // namespace perigee
