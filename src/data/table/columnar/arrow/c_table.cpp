#include "src/data/table/columnar/arrow/c_table.h"

#include <cstring>
#include <set>

#include "src/core/error.h"

namespace perigee::tables::arrow {
namespace {

constexpr size_t kMostBatches = size_t{1} << 24;
constexpr int64_t kMostRows = int64_t{1} << 40;

[[noreturn]] void failed_stream(ArrowArrayStream* stream, const std::string& where, const char* what, int status) {
  const char* said = stream->get_last_error != nullptr ? stream->get_last_error(stream) : nullptr;
  throw Error(ErrorKind::data, {.where = where,
                                .what = std::string(what) + (said != nullptr && *said != 0 ? ": " + std::string(said).substr(0, 400) : ""),
                                .got = "status " + std::to_string(status) + " (" + std::strerror(status) + ")"});
}

}  // namespace

HandedTable::HandedTable(ArrowArrayStream* given, const std::string& name) : name_(name) {
  Owned<ArrowArrayStream> stream(given);
  if (!stream.there())
    throw Error(ErrorKind::usage,
                {.where = name_,
                 .what = given == nullptr ? "the ArrowArrayStream is a null pointer" : "the ArrowArrayStream has been released",
                 .hint = "a stream is handed over once; ask the table for another one"});
  if (stream->get_schema == nullptr || stream->get_next == nullptr)
    throw Error(ErrorKind::data, {.where = name_, .what = "the ArrowArrayStream has no function that gives its schema, or its batches"});
  ArrowSchema described{};
  if (const int status = stream->get_schema(stream.get(), &described); status != 0)
    failed_stream(stream.get(), name_, "the ArrowArrayStream gives no schema", status);
  const Owned<ArrowSchema> schema(&described);
  take_schema(*schema);
  for (;;) {
    ArrowArray next{};
    if (const int status = stream->get_next(stream.get(), &next); status != 0)
      failed_stream(stream.get(), name_ + ": batch " + std::to_string(batches_.size() + 1), "the ArrowArrayStream gives no batch", status);
    if (next.release == nullptr) return;
    add_batch(&next);
  }
}

HandedTable::HandedTable(ArrowSchema* given_schema, ArrowArray* given, const std::string& name) : name_(name) {
  const Owned<ArrowSchema> schema(given_schema);
  Owned<ArrowArray> array(given);
  if (!schema.there() || !array.there())
    throw Error(ErrorKind::usage, {.where = name_,
                                   .what = "the ArrowSchema or the ArrowArray is a null pointer, or has been released",
                                   .hint = "both are handed over once"});
  take_schema(*schema);
  add_batch(array.get());
}

void HandedTable::take_schema(const ArrowSchema& schema) {
  leaves_ = leaves_of(schema, name_);
  std::set<std::string> taken;
  for (const Leaf& leaf : leaves_) {
    std::string column = leaf.field.name;
    while (!taken.insert(column).second) column += "_" + std::to_string(schema_.columns.size());
    schema_.columns.push_back({.name = std::move(column), .type = leaf.field.type});
  }
}

void HandedTable::add_batch(ArrowArray* array) {
  batches_.push_back(std::make_unique<Owned<ArrowArray>>(array));
  const int64_t length = (*batches_.back())->length;
  if (length < 0 || length > kMostRows || rows_ + length > kMostRows || batches_.size() > kMostBatches)
    throw Error(ErrorKind::data, {.where = name_ + ": batch " + std::to_string(batches_.size()),
                                  .what = "the number of rows is out of range, or there are too many batches",
                                  .got = std::to_string(length) + " rows"});
  rows_ += length;
}

CColumn HandedTable::column(int64_t batch, size_t leaf) const {
  return {**batches_[static_cast<size_t>(batch)], leaves_[leaf], name_ + ": batch " + std::to_string(batch + 1)};
}

Frame HandedTable::read(int64_t chunk, std::span<const size_t> columns) const {
  Frame frame;
  frame.rows = (*batches_[static_cast<size_t>(chunk)])->length;
  for (const size_t c : columns) frame.add(schema_.columns[c], column(chunk, c).values());
  return frame;
}

}  // namespace perigee::tables::arrow
