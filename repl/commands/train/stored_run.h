// `perigee train --out s3://…` and `--resume s3://…`: the run has a local folder, and every state of it with a new checkpoint is published
// (src/io/store/published.h) beside the training.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "src/io/store/published.h"

namespace perigee {

class StoredRun {
 public:
  // Puts local paths in the place of addresses in `out` and `resume`; null when there are none. What is resumed is fetched first, and goes on at
  // its address unless `out` says otherwise.
  static std::unique_ptr<StoredRun> begin(std::string* out, std::string* resume);
  StoredRun(std::string url, std::string folder, bool fresh);
  ~StoredRun();
  StoredRun(const StoredRun&) = delete;
  StoredRun& operator=(const StoredRun&) = delete;
  // The run has ended: everything is published, or Error.
  void finish();

 private:
  void watch();
  bool publish();
  PublishedFolder& published();

  std::string url_, folder_;
  bool fresh_;
  std::optional<PublishedFolder> published_;  // from the first state on: a script with a mistake takes no address
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace perigee
