// A timeline on disk, in the Trace Event Format that ui.perfetto.dev and chrome://tracing open: an array of events, each on a line of
// its own, appended as they come. The array's end may be missing (readers of the format allow that), so what was written until the
// process was killed can be looked at. A thread of its own formats and writes; producers never wait: events are
// dropped and counted when it is far behind. Beyond Options::limit_bytes the file says that it is full and stays as it is.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "src/core/json.h"
#include "src/core/trace.h"

namespace perigee {

class TraceFile {
 public:
  struct Options {
    uint64_t limit_bytes = uint64_t{1} << 30;
    std::string round_name = "round";  // what PhaseSpan::round is called
  };
  static constexpr size_t kQueued = size_t{1} << 17;  // events

  // Replaces a file of that name. Error(resources) when it cannot be written. Times are told from now on.
  TraceFile(const std::string& path, Options options);
  explicit TraceFile(const std::string& path) : TraceFile(path, Options()) {}
  ~TraceFile();  // writes what is left, and the array's end
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::string& path() const { return path_; }

  // All of these by any thread.
  void name_process(uint32_t process, const std::string& name);
  void name_row(uint32_t process, uint8_t row, const std::string& name);
  // `offset_ns` is added to the spans' times. Spans of one row must not overlap and come in their order; the first span of a row names it.
  void add(uint32_t process, int64_t offset_ns, std::span<const PhaseSpan> spans);
  // begin == end: an instant, shown over all processes.
  void add(uint32_t process, uint8_t row, const std::string& name, uint64_t begin_ns, uint64_t end_ns, const Json& args);
  // From now on the writing thread takes the spans out of `ring`, which outlives this object.
  void follow(TraceRing& ring, uint32_t process);

 private:
  struct Event {
    uint32_t process = 0;
    int64_t offset_ns = 0;
    PhaseSpan span;
    std::string name;  // empty: the span's phase
    std::string args;  // JSON; empty: made of the span
    enum class Kind : uint8_t { span, process_name, row_name } kind = Kind::span;
  };
  struct Followed {
    TraceRing* ring = nullptr;
    uint32_t process = 0;
    uint64_t told_dropped = 0;
  };

  void put(Event event);
  void writer_main();
  void write_events(const std::vector<Event>& events, uint64_t dropped);
  void write_ring(Followed& followed);
  void write(const Event& event);
  void write_span(const Event& event);
  void line(const std::string& text);
  void note(const std::string& text);
  void flush();

  const std::string path_;
  const Options options_;
  const uint64_t origin_ns_;
  int file_ = -1;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> queue_;
  std::vector<Followed> followed_;
  uint64_t dropped_ = 0;
  bool closing_ = false;

  // The writing thread's.
  std::vector<Event> taken_;
  std::vector<PhaseSpan> from_ring_;
  std::map<std::pair<uint32_t, uint8_t>, uint64_t> row_end_ns_;
  std::string text_;
  uint64_t bytes_ = 0, told_dropped_ = 0;
  bool full_ = false, broken_ = false;

  std::thread thread_;
};

}  // namespace perigee
