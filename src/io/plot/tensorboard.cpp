#include "src/io/plot/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
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

// Bits 31 to 16 of a float32 are its sign, its exponent and 7 bits of its mantissa: all that a bucket is found by.
constexpr uint32_t kKeys = 1 << 16;
constexpr uint32_t kSign = 1 << 15, kInfinity = 0x7f80;

uint32_t key_of(float value) { return std::bit_cast<uint32_t>(value) >> 16; }
double tensorboard_value_of(uint32_t key) { return std::bit_cast<float>(key << 16); }

// Limits have no more bits than keys have, so that a key lies in one bucket.
struct Buckets {
  std::vector<double> limits;
  std::vector<uint16_t> of_key;

  Buckets() : of_key(kKeys) {
    std::vector<double> positive;
    for (double v = 1e-12; v < 1e20; v *= 1.1) positive.push_back(tensorboard_value_of(key_of(static_cast<float>(v))));
    positive.push_back(1.7976931348623157e308);
    for (auto v = positive.rbegin(); v != positive.rend(); ++v) limits.push_back(-*v);
    limits.push_back(0);
    limits.insert(limits.end(), positive.begin(), positive.end());
    for (uint32_t key = 0; key < kKeys; ++key) {
      // Numbers of a negative key lie below its value, but for zero.
      const uint32_t beyond = key > kSign ? std::min(key + 1, kSign | kInfinity) : std::min(key, kInfinity);
      const double v = key == kSign ? 0 : tensorboard_value_of(beyond);
      const auto above = std::upper_bound(limits.begin(), limits.end(), v);
      of_key[key] = static_cast<uint16_t>(std::min<std::ptrdiff_t>(above - limits.begin(), static_cast<std::ptrdiff_t>(limits.size()) - 1));
    }
  }
};

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
  static const Buckets buckets;
  const std::vector<double>& limits = buckets.limits;
  std::vector<int64_t> counts(limits.size());
  float low = INFINITY, high = -INFINITY;
  double sum = 0, squares = 0;
  int64_t number = 0;
  for (const float v : values) {
    if (std::isnan(v)) continue;
    ++counts[buckets.of_key[key_of(v)]];
    low = std::min(low, v), high = std::max(high, v);
    sum += v, squares += static_cast<double>(v) * v, ++number;
  }
  if (number == 0) return;
  std::string packed_limits, packed_counts, histogram, content;
  const size_t first = buckets.of_key[key_of(low)], last = buckets.of_key[key_of(high)];
  for (size_t i = first > 0 ? first - 1 : 0; i <= last; ++i) {
    if (counts[i] == 0 && counts[i + 1] == 0) continue;  // of a run of empty buckets the last limit is enough
    put_raw(packed_limits, limits[i]);
    put_raw(packed_counts, static_cast<double>(counts[i]));
  }
  put_double(histogram, 1, low);
  put_double(histogram, 2, high);
  put_double(histogram, 3, static_cast<double>(number));
  put_double(histogram, 4, sum);
  put_double(histogram, 5, squares);
  put_bytes(histogram, 6, packed_limits);
  put_bytes(histogram, 7, packed_counts);
  put_bytes(content, 5, histogram);
  event(step, tag, content);
}

// Width and height stand at fixed places of a PNG file.
void TensorboardWriter::image(std::string_view tag, int64_t step, std::string_view png) {
  constexpr size_t kWidthAt = 16, kHeightAt = 20, kHeaderBytes = 24;
  constexpr int64_t kColours = 3;  // red, green, blue
  if (png.size() < kHeaderBytes) return drop("an image is no PNG file");
  const auto number_at = [&](size_t at) {
    int64_t number = 0;
    for (size_t i = at; i < at + 4; ++i) number = number << 8 | static_cast<unsigned char>(png[i]);
    return number;
  };
  std::string image, content;
  put_int(image, 1, number_at(kHeightAt));
  put_int(image, 2, number_at(kWidthAt));
  put_int(image, 3, kColours);
  put_bytes(image, 4, png);
  put_bytes(content, 4, image);
  event(step, tag, content);
}

// A GraphDef.
void TensorboardWriter::graph(const std::vector<TensorboardNode>& nodes) {
  std::string graph, event;
  for (const TensorboardNode& node : nodes) {
    std::string content;
    put_bytes(content, 1, node.name);
    put_bytes(content, 2, node.kind);
    for (const std::string& input : node.inputs) put_bytes(content, 3, input);
    put_bytes(graph, 1, content);
  }
  put_double(event, 1, now_s());
  put_bytes(event, 4, graph);
  record(event);
}

// The session_start_info of plugins/hparams/plugin_data.proto, in the metadata of a value that is itself of no use.
void TensorboardWriter::settings(const std::vector<TensorboardSetting>& settings) {
  std::string start, data, plugin, metadata, tensor, content;
  for (const auto& [name, value] : settings) {
    std::string typed, entry;
    if (const auto* number = std::get_if<double>(&value)) put_double(typed, 2, *number);
    else if (const auto* text = std::get_if<std::string>(&value)) put_bytes(typed, 3, *text);
    else put_int(typed, 4, std::get<bool>(value) ? 1 : 0);
    put_bytes(entry, 1, name);
    put_bytes(entry, 2, typed);
    put_bytes(start, 1, entry);
  }
  put_double(start, 5, now_s());
  put_bytes(data, 3, start);
  put_bytes(plugin, 1, "hparams");
  put_bytes(plugin, 2, data);
  put_bytes(metadata, 1, plugin);
  put_int(tensor, 1, 1);  // one float
  put_bytes(tensor, 2, "");
  put_float(tensor, 5, 0);
  put_bytes(content, 8, tensor);
  put_bytes(content, 9, metadata);
  event(0, "_hparams_/session_start_info", content);
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
