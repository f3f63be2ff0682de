// TensorBoard event files: records (length, masked CRC32C, protobuf) with scalars, histograms, images, a graph and settings, written without
// protobuf.
// A log must never end a run: what cannot be written is counted and dropped, and told once by warn().
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace perigee {

uint32_t crc32c(std::string_view bytes);

struct TensorboardNode {
  std::string name, kind;
  std::vector<std::string> inputs;  // names of nodes
};
using TensorboardSetting = std::pair<std::string, std::variant<double, std::string, bool>>;

class TensorboardWriter {
 public:
  // Begins a new event file in `folder`, which is made if it is missing.
  explicit TensorboardWriter(const std::string& folder);
  ~TensorboardWriter();
  TensorboardWriter(const TensorboardWriter&) = delete;
  TensorboardWriter& operator=(const TensorboardWriter&) = delete;

  void scalar(std::string_view tag, int64_t step, double value);
  // Buckets grow by about a tenth from 1e-12 on either side of zero, as TensorBoard's own. NaN values are left out.
  void histogram(std::string_view tag, int64_t step, std::span<const float> values);
  // `png`: the bytes of a PNG file.
  void image(std::string_view tag, int64_t step, std::string_view png);
  void graph(const std::vector<TensorboardNode>& nodes);
  // The page "HParams" compares runs by them.
  void settings(const std::vector<TensorboardSetting>& settings);
  void flush();

  const std::string& path() const { return path_; }
  int64_t dropped() const { return dropped_; }

 private:
  void event(int64_t step, std::string_view tag, std::string_view content);
  void record(std::string_view data);
  void drop(const char* why);

  std::string path_, pending_;
  int descriptor_ = -1;
  int64_t dropped_ = 0;
};

}  // namespace perigee
