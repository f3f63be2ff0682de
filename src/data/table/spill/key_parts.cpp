#include "src/data/table/spill/key_parts.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "src/data/table/spill/merge.h"
#include "src/data/table/steps.h"

namespace perigee::tables {
namespace {

constexpr unsigned kMostLevels = 4;

TableRoom of_a_thread(TableRoom room) {
  room.memory /= static_cast<uint64_t>(room.threads);
  return room;
}

}  // namespace

KeyParts::KeyParts(const TableRoom& room, const std::shared_ptr<ScratchFile>& file, unsigned level)
    : most_bytes_(std::max<uint64_t>(room.part() / kCount, 4096)),
      level_(level),
      parts_(kCount, ChunkStore(file)),
      held_(kCount),
      held_bytes_(kCount) {}

void KeyParts::add(const Frame& frame, const std::vector<size_t>& keys) {
  std::array<std::vector<int64_t>, kCount> rows;
  for (int64_t r = 0; r < frame.rows; ++r) {
    uint64_t hash = level_;
    for (const size_t c : keys) hash = (hash ^ cell_hash(frame.columns[c], frame.schema.columns[c], r)) * 0x9e3779b97f4a7c15;
    // Other bits on each level.
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93 * (2 * level_ + 1);
    rows[hash >> 58].push_back(r);
  }
  for (size_t p = 0; p < kCount; ++p) {
    if (rows[p].empty()) continue;
    Frame piece{.schema = frame.schema, .rows = static_cast<int64_t>(rows[p].size())};
    for (const Column& column : frame.columns) piece.columns.push_back(column.rows(rows[p]));
    for (const int64_t r : rows[p])
      if (!frame.numbers.empty()) piece.numbers.push_back(frame.numbers[static_cast<size_t>(r)]);
    held_bytes_[p] += bytes_of(piece);
    append_chunk(held_[p], std::move(piece));
    if (held_bytes_[p] > most_bytes_) write(p);
  }
}

void KeyParts::write(size_t part) {
  if (held_[part].rows > 0) parts_[part].add(held_[part]);
  held_[part] = Frame();
  held_bytes_[part] = 0;
}

std::vector<ChunkStore>& KeyParts::finish() {
  for (size_t p = 0; p < kCount; ++p) write(p);
  return parts_;
}

void each_batch(const ChunkStore& part, uint64_t bytes, const UseFrame& use) {
  Frame batch;
  for (size_t chunk = 0; chunk < part.size(); ++chunk) {
    append_chunk(batch, part.read(chunk));
    if (chunk + 1 < part.size() && bytes_of(batch) < bytes) continue;
    use(std::move(batch));
    batch = Frame();
  }
}

void add_run(ChunkStore& run, Frame&& frame, const TableRoom& room) {
  each_piece(std::move(frame), run_chunk_bytes(room), [&](Frame&& piece) { run.add(piece); });
}

PartsSink::PartsSink(const TableRoom& room, UseFrame next)
    : all_(room), mine_(of_a_thread(room)), next_(std::move(next)), file_(std::make_shared<ScratchFile>(room)), parts_(room, file_, 0) {}

void PartsSink::add(Frame&& frame) {
  if (frame.rows == 0) return;
  frame.sequences.clear();
  if (!has_keys_) keys_ = keys_of(frame), has_keys_ = true;
  reduce(frame);
  Column numbers(Type::integer);
  numbers.whole.resize(static_cast<size_t>(frame.rows));
  std::iota(numbers.whole.begin(), numbers.whole.end(), rows_);
  rows_ += frame.rows;
  frame.add({.name = hidden_name("row"), .type = Type::integer}, std::move(numbers));
  parts_.add(frame, keys_);
}

void PartsSink::compute_part(ChunkStore&& part, unsigned level, std::vector<ChunkStore>& runs) {
  if (part.rows() == 0) return;
  runs.emplace_back(file_);
  if (compute(part, level >= kMostLevels, runs.back())) return part.clear();
  runs.pop_back();
  KeyParts cut(mine_, file_, level);
  const int64_t rows = part.rows();
  for (size_t chunk = 0; chunk < part.size(); ++chunk) cut.add(part.take(chunk), keys_);
  part.clear();
  for (ChunkStore& each : cut.finish()) compute_part(std::move(each), each.rows() == rows ? kMostLevels : level + 1, runs);
}

void PartsSink::finish() {
  std::vector<ChunkStore>& parts = parts_.finish();
  std::vector<std::vector<ChunkStore>> runs(parts.size());
  on_threads(all_.threads, parts.size(), [&](size_t p) { compute_part(std::move(parts[p]), 1, runs[p]); });
  std::vector<ChunkStore> all;
  for (auto& some : runs)
    for (ChunkStore& run : some)
      if (run.rows() > 0) all.push_back(std::move(run));
  if (all.empty()) return;
  const RowOrder order{.columns = {all[0].schema().columns.size() - 1}};
  merge_runs(std::move(all), order, all_, file_, [&](Frame&& frame) {
    frame.remove(frame.columns.size() - 1);
    give(std::move(frame), next_);
  });
}

}  // namespace perigee::tables
