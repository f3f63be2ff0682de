// How a TableFile reads a columnar file: chunks on several threads, handed on in their order; columns as a given schema wants them.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "src/core/error.h"
#include "src/data/table/columnar/columnar.h"
#include "src/data/table/reading/table_file.h"

namespace perigee::tables {
namespace {

// `from` as a column of `spec`; what does not fit it is counted in `block`, or refused.
Column columnar_reading_converted(const Column& from, const ColumnSpec& was, const ColumnSpec& spec, size_t number, OnMisfit on_misfit,
                                  const std::string& where, CsvBlock& block) {
  Column column(spec.type);
  column.reserve(from.size());
  std::string text;
  for (int64_t r = 0; r < from.size(); ++r) {
    if (from.is_missing(r)) {
      column.add_missing();
      continue;
    }
    text.clear();
    append_cell(from, was, r, text);
    if (add_parsed(spec, text, column)) continue;
    if (on_misfit == OnMisfit::stop) throw misfit_error(where + ": row " + std::to_string(r + 1), spec, text, kWriteNull);
    column.add_missing();
    if (block.misfits.empty()) block.misfits.assign(number + 1, 0);
    if (block.misfits.size() <= number) block.misfits.resize(number + 1);
    ++block.misfits[number];
    if (block.misfit_cells.size() < most_misfits(on_misfit)) block.misfit_cells.push_back({r, r, number, text.substr(0, 60)});
  }
  return column;
}

Column all_missing(Type type, int64_t rows) {
  Column column(type);
  column.reserve(rows);
  for (int64_t r = 0; r < rows; ++r) column.add_missing();
  return column;
}

}  // namespace

// Columns of a schema are found by name; without one all of them are read.
void TableFile::plan_columnar() {
  const TableSchema& has = columnar_->schema();
  if (options_.schema) schema_ = *options_.schema;
  else schema_ = has;
  std::string lacking;
  for (const ColumnSpec& spec : schema_.columns) {
    const int64_t found = columnar_->find(spec.name);
    columns_.push_back(found);
    if (found < 0 && spec.name != options_.may_lack) lacking += (lacking.empty() ? "'" : ", '") + spec.name.substr(0, 60) + "'";
    const std::string refusal =
        found < 0 || static_cast<size_t>(found) >= has.columns.size() ? "" : columnar_->refusal(static_cast<size_t>(found));
    if (!refusal.empty())
      throw Error(ErrorKind::data,
                  {.where = path_,
                   .what = "the column '" + spec.name.substr(0, 60) + "' is not read: " + refusal,
                   .expected = "columns with one value in each row",
                   .hint = R"(a schema that names the others reads those: {"columns": [{"name": "...", "type": "real"}]})"});
  }
  if (lacking.empty()) return;
  std::string have;
  for (size_t c = 0; c < has.columns.size() && c < 16; ++c) have += (c ? ", '" : "'") + has.columns[c].name.substr(0, 40) + "'";
  throw Error(ErrorKind::data, {.where = path_, .what = "columns of the schema are missing: " + lacking, .got = have});
}

void TableFile::read_columnar(int64_t number, CsvBlock& block) const {
  std::vector<size_t> wanted;
  for (const int64_t c : columns_)
    if (c >= 0) wanted.push_back(static_cast<size_t>(c));
  Frame found = columnar_->read(number, wanted);
  block = {};
  block.frame.rows = found.rows;
  const bool same = std::equal(columns_.begin(), columns_.end(), schema_.columns.begin(), schema_.columns.end(),
                               [&, at = size_t{0}](int64_t column, const ColumnSpec& spec) mutable {
                                 return column >= 0 && found.schema.columns[at++].type == spec.type;
                               });
  if (same) {  // a wide table is held only once
    std::vector<ColumnSpec>().swap(found.schema.columns);
    block.frame.schema = schema_;
    block.frame.columns = std::move(found.columns);
    return;
  }
  block.frame.schema.columns.reserve(columns_.size());
  block.frame.columns.reserve(columns_.size());
  const std::string where = path_ + ": part " + std::to_string(number + 1);
  size_t next = 0;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const ColumnSpec& spec = schema_.columns[c];
    block.frame.schema.columns.push_back(spec);
    if (columns_[c] < 0) {
      block.frame.columns.push_back(all_missing(spec.type, found.rows));
      continue;
    }
    const ColumnSpec& was = found.schema.columns[next];
    Column& column = found.columns[next++];
    block.frame.columns.push_back(
        column.type == spec.type ? std::move(column) : columnar_reading_converted(column, was, spec, c, options_.on_misfit, where, block));
  }
  if (!block.misfits.empty()) block.misfits.resize(columns_.size());
}

void TableFile::each_columnar(const std::function<void(Chunk&)>& work, const std::function<void(Chunk&)>& in_order) {
  std::mutex mutex;
  std::condition_variable turned;
  std::exception_ptr error;
  int64_t next = 0, turn = 0, row = 0;
  const int64_t count = columnar_->chunks();
  const auto run = [&](int rank) {
    for (;;) {
      Chunk chunk{.rank = rank};
      {
        const std::lock_guard lock(mutex);
        if (error || next == count) return;
        chunk.number = next++;
      }
      std::exception_ptr mine;
      try {
        read_columnar(chunk.number, chunk.block);
        work(chunk);
      } catch (...) {
        mine = std::current_exception();
      }
      std::unique_lock lock(mutex);
      turned.wait(lock, [&] { return turn == chunk.number || error; });
      if (error) return;
      chunk.first_row = row;
      chunk.first_line = row + 1;
      try {
        if (mine) std::rethrow_exception(mine);
        in_order(chunk);
      } catch (...) {
        error = std::current_exception();
      }
      row += chunk.block.frame.rows;
      ++turn;
      turned.notify_all();
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < options_.threads; ++rank) threads.emplace_back(run, rank);
  run(0);
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace perigee::tables
