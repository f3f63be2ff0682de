#include "src/io/plot/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "src/core/warning.h"

namespace perigee {
namespace {

constexpr size_t kPendingBytes = 1 << 16;

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);  // Castagnoli, reflected
    table[i] = crc;
  }
  return table;
}

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

template <class T>
void put_raw(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Protobuf fields by wire type: 0 varint, 1 double, 2 bytes, 5 float.
void put_int(std::string& out, int field, int64_t value) {
  put_varint(out, static_cast<uint64_t>(field) << 3);
  put_varint(out, static_cast<uint64_t>(value));
}
void put_double(std::string& out, int field, double value) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 1);
  put_raw(out, value);
}
void put_float(std::string& out, int field, float value) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 5);
  put_raw(out, value);
}
void put_bytes(std::string& out, int field, std::string_view value) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 2);
  put_varint(out, value.size());
  out += value;
}

std::vector<double> bucket_limits() {
  std::vector<double> positive, limits;
  for (double v = 1e-12; v < 1e20; v *= 1.1) positive.push_back(v);
  positive.push_back(1.7976931348623157e308);
  for (auto v = positive.rbegin(); v != positive.rend(); ++v) limits.push_back(-*v);
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto table = crc_table();
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

TensorboardWriter::TensorboardWriter(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  char host[256] = "localhost";
  ::gethostname(host, sizeof host - 1);
  const std::string stem =
      folder + "/events.out.tfevents." + std::to_string(static_cast<int64_t>(now_s())) + "." + host + "." + std::to_string(::getpid());
  for (int i = 0; i < 1000 && descriptor_ < 0; ++i) {
    path_ = stem + "." + std::to_string(i);
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) {
    drop(std::strerror(errno));
    return;
  }
  std::string version;
  put_double(version, 1, now_s());
  put_bytes(version, 3, "brain.Event:2");
  record(version);
  flush();
}

TensorboardWriter::~TensorboardWriter() {
  flush();
  if (descriptor_ >= 0) ::close(descriptor_);
}

void TensorboardWriter::scalar(std::string_view tag, int64_t step, double value) {
  std::string content;
  put_float(content, 2, static_cast<float>(value));
  event(step, tag, content);
}

void TensorboardWriter::histogram(std::string_view tag, int64_t step, std::span<const float> values) {
  static const std::vector<double> limits = bucket_limits();
  std::vector<double> counts(limits.size());
  double low = INFINITY, high = -INFINITY, number = 0, sum = 0, squares = 0;
  for (const double v : values) {
    if (std::isnan(v)) continue;
    const auto bucket = static_cast<size_t>(std::upper_bound(limits.begin(), limits.end(), v) - limits.begin());
    ++counts[std::min(bucket, limits.size() - 1)];
    low = std::min(low, v), high = std::max(high, v), sum += v, squares += v * v, ++number;
  }
  if (number == 0) return;
  std::string packed_limits, packed_counts, histogram, content;
  for (size_t i = 0; i < limits.size(); ++i) {
    // Runs of empty buckets need only their last limit.
    if (counts[i] == 0 && i + 1 < limits.size() && counts[i + 1] == 0) continue;
    put_raw(packed_limits, limits[i]);
    put_raw(packed_counts, counts[i]);
  }
  put_double(histogram, 1, low);
  put_double(histogram, 2, high);
  put_double(histogram, 3, number);
  put_double(histogram, 4, sum);
  put_double(histogram, 5, squares);
  put_bytes(histogram, 6, packed_limits);
  put_bytes(histogram, 7, packed_counts);
  put_bytes(content, 5, histogram);
  event(step, tag, content);
}

void TensorboardWriter::event(int64_t step, std::string_view tag, std::string_view content) {
  std::string value, summary, event;
  put_bytes(value, 1, tag);
  value += content;
  put_bytes(summary, 1, value);
  put_double(event, 1, now_s());
  put_int(event, 2, step);
  put_bytes(event, 5, summary);
  record(event);
}

void TensorboardWriter::record(std::string_view data) {
  if (descriptor_ < 0) return drop("the file could not be opened");
  const size_t start = pending_.size();
  put_raw(pending_, static_cast<uint64_t>(data.size()));
  put_raw(pending_, masked_crc(std::string_view(pending_).substr(start)));
  pending_ += data;
  put_raw(pending_, masked_crc(data));
  if (pending_.size() > kPendingBytes) flush();
}

void TensorboardWriter::flush() {
  size_t done = 0;
  while (done < pending_.size() && descriptor_ >= 0) {
    const ssize_t written = ::write(descriptor_, pending_.data() + done, pending_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      drop(std::strerror(errno));
      // A record cut in two would make everything behind it unreadable.
      if (done > 0) ::close(std::exchange(descriptor_, -1));
      break;
    }
    done += static_cast<size_t>(written);
  }
  pending_.clear();
}

void TensorboardWriter::drop(const char* why) {
  if (dropped_++ == 0) warn("TensorBoard events are not written to " + path_ + ": " + why);
}

}  // namespace perigee
