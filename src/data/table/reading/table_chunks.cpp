// How the blocks of a file are read and parsed on several threads, and handed on in their order.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "src/core/error.h"
#include "src/data/table/reading/csv_rows.h"
#include "src/data/table/reading/table_file.h"

namespace perigee::tables {
namespace {

// Bytes of a row, which is there twice or three times while it is read: a small file that unpacks to a large one has no large rows.
size_t most_row(uint64_t file_bytes) {
  return static_cast<size_t>(std::min<uint64_t>(uint64_t{64} << 20, (uint64_t{12} << 20) + 4 * file_bytes));
}

}  // namespace

uint64_t bytes_of_file(const std::string& path) {
  std::error_code status;
  const auto size = std::filesystem::file_size(path, status);
  return status ? uint64_t{1} << 40 : size;
}

// The state that the threads of each() share.
class TableFile::Reading {
 public:
  // Bytes that are not filled again before they are read into.
  struct Text {
    std::vector<char> bytes;
    size_t size = 0;
    std::string_view view() const { return {bytes.data(), size}; }
    void reserve(size_t count) {
      if (bytes.size() < count + kCsvPadding) bytes.resize(count + kCsvPadding);
    }
  };

  explicit Reading(TableFile& file) : file_(file), stream_(file.stream()) {
    std::string skipped(file.skip_bytes_, '\0');
    stream_->read(skipped.data(), skipped.size());
  }

  void run(int rank, const std::function<void(Chunk&)>& work, const std::function<void(Chunk&)>& in_order) {
    Chunk chunk{.rank = rank};
    Text text;
    for (;;) {
      if (!next(text, &chunk.number)) return;
      std::exception_ptr error;
      // A guessed type that does not hold is no error: the table is read again.
      try {
        file_.parse(text.view(), 1, file_.guessed_ ? OnMisfit::missing : file_.options_.on_misfit, &chunk.block);
        if (!file_.guessed_ || chunk.block.first.line < 0) work(chunk);
      } catch (...) {
        error = std::current_exception();
      }
      std::unique_lock lock(turn_mutex_);
      turned_.wait(lock, [&] { return turn_ == chunk.number || stopped_; });
      if (stopped_) return;
      chunk.first_line = line_;
      chunk.first_row = row_;
      try {
        if (error) {
          again(text, error);
        } else if (file_.guessed_ && chunk.block.first.line >= 0) {
          widened_ = chunk.block.first;
          stopped_ = true;
        } else {
          in_order(chunk);
        }
      } catch (...) {
        error_ = std::current_exception();
        stopped_ = true;
      }
      line_ += chunk.block.lines;
      row_ += chunk.block.frame.rows;
      ++turn_;
      turned_.notify_all();
      if (stopped_) return;
    }
  }

  void stop(std::exception_ptr error) {
    const std::lock_guard lock(turn_mutex_);
    if (!error_) error_ = std::move(error);
    stopped_ = true;
    turned_.notify_all();
  }

  std::exception_ptr error_;
  Misfit widened_;

 private:
  // The next whole rows, with zeros behind them. False: there are none.
  bool next(Text& text, int64_t* number) {
    const std::lock_guard lock(read_mutex_);
    if (ended_) return false;
    const size_t wanted = file_.options_.chunk_bytes;
    text.reserve(rest_.size() + wanted);
    text.size = rest_.copy(text.bytes.data(), rest_.size());
    rest_.clear();
    for (;;) {
      text.reserve(text.size + wanted);
      const size_t got = stream_->read(text.bytes.data() + text.size, wanted);
      text.size += got;
      if (got < wanted) {
        ended_ = true;
        break;
      }
      const size_t whole = whole_rows(text.view(), file_.json_ ? '\0' : file_.options_.dialect.quote);
      if (whole > 0) {
        rest_.assign(text.view().substr(whole));
        text.size = whole;
        break;
      }
      if (text.size > most_row_)
        throw Error(ErrorKind::data, {.where = file_.path_,
                                      .what = "a row does not end",
                                      .got = std::to_string(text.size >> 20) + " MiB",
                                      .expected = "at most " + std::to_string(most_row_ >> 20) + " MiB, and line feeds between rows",
                                      .hint = "a quote that is not closed may be the reason"});
    }
    if (text.size == 0) return false;
    std::memset(text.bytes.data() + text.size, 0, kCsvPadding);
    *number = next_++;
    return true;
  }

  // With the right line number, that of the block being known now.
  void again(const Text& text, const std::exception_ptr& error) {
    CsvBlock ignored;
    file_.parse(text.view(), line_, file_.options_.on_misfit, &ignored);
    std::rethrow_exception(error);
  }

  TableFile& file_;
  const size_t most_row_ = most_row(file_.in_memory_ ? file_.content_.size() : bytes_of_file(file_.path_));
  std::mutex read_mutex_, turn_mutex_;
  std::condition_variable turned_;
  std::unique_ptr<ByteStream> stream_;
  std::string rest_;
  bool ended_ = false, stopped_ = false;
  int64_t next_ = 0, turn_ = 0, row_ = 0;
  int64_t line_ = file_.skip_lines_ + 1;
};

bool TableFile::each(const std::function<void(Chunk&)>& work, const std::function<void(Chunk&)>& in_order) {
  if (columnar_) return each_columnar(work, in_order), true;
  Reading reading(*this);
  const auto run = [&](int rank) {
    try {
      reading.run(rank, work, in_order);
    } catch (...) {
      reading.stop(std::current_exception());
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < options_.threads; ++rank) threads.emplace_back(run, rank);
  run(0);
  for (std::thread& thread : threads) thread.join();
  if (reading.error_) std::rethrow_exception(reading.error_);
  if (reading.widened_.line < 0) return true;
  widen(reading.widened_);
  return false;
}

}  // namespace perigee::tables
