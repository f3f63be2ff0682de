// A worker's side of data.at = "coordinator": which examples are wanted, asked for, and here. Threads that read examples wait in it; the
// loop thread takes out what is to be asked and puts in what comes. It holds a window of a bounded size, asked for ahead of need, and
// survives the loss of the coordinator: what had not come is asked again of the next one.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>

#include "cluster/data/record.h"
#include "cluster/protocol/message.h"

namespace perigee {

struct ExampleClientOptions {
  size_t window_bytes = size_t{16} << 20;  // asked for or here, and not read yet; what a reader waits for may come on top
  size_t block_bytes = size_t{256} << 10;  // asked for at once; one record may be larger
  size_t max_ids = size_t{32} << 10;       // asked for and not come
  size_t max_requests = 512;               // the same
  double deadline_ms = 60'000;             // a connected coordinator that sends nothing for so long fails the reader ...
  bool lost_is_silent = false;             // ... and so does one that is lost for so long, or lost again and again
  // How the error of a reader puts it.
  const char* where = "data.at = \"coordinator\"";
  const char* sender = "data of the coordinator";
  const char* silence = "the coordinator sends no examples";
  const char* hint = "its disk may be slow or stuck; data.at = \"worker\" reads them here";
};

class ExampleClient {
 public:
  // `wake`: called on any thread when next() has something; it asks the loop to call that.
  ExampleClient(std::function<void()> wake, ExampleClientOptions options = {});
  ~ExampleClient();  // no thread reads any more

  // ---- any thread ----
  // These will be read soon, in this order. Returns at once; more than there is room for is forgotten.
  void expect(uint32_t source, const RecordLayout& layout, std::span<const ReadKey> keys);
  // Waits. Error as the coordinator met it; Error(cluster) when nothing comes, or after stop().
  void read(uint32_t source, const RecordLayout& layout, const ReadKey& key, std::span<std::byte* const> slots);
  // As read(), where it need not wait: false, and it is asked for, when the example is not here.
  bool take(uint32_t source, const RecordLayout& layout, const ReadKey& key, std::span<std::byte* const> slots);
  bool asks() const;  // something was asked for and has not come
  // A reader has been waiting for a while.
  bool starved() const;
  // Every reader, now or later, gets an Error(cluster): the worker ends.
  void stop();
  // How many examples of this layout fit into the window.
  int64_t room_for(const RecordLayout& layout) const;

  // ---- loop thread ----
  void on_joined();
  void on_coordinator_lost();
  bool next(Read* read);                                                        // what to ask now; false: nothing
  void not_sent(const Read& read);                                              // it could not be asked: it stays to be asked
  bool on_examples(const Examples& examples, std::span<const std::byte> body);  // false: they were not requested

  struct Counters {
    uint64_t requests = 0, asked = 0, examples = 0, bytes = 0;  // asked, and come
    uint64_t unexpected = 0;                                    // examples that were read without having been expected
    uint64_t given_up = 0;                                      // blocks that were asked for and not read
    size_t held_bytes = 0;                                      // of the window
  };
  Counters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perigee
