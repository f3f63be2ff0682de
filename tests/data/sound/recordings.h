// Recordings that a source has read, samples of files, and expected values of other libraries.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "src/data/source.h"
#include "src/io/archive/zip.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "src/io/sound/sound.h"
#include "tests/data/fixtures.h"
#include "tests/data/wav_file.h"

namespace perigee {

struct Recording {
  std::vector<float> x;
  int64_t n = -1, y = -1;
};

inline Recording read_recording(const DataSource& source, int64_t index, uint64_t epoch = 0) {
  Recording recording{.x = std::vector<float>(static_cast<size_t>(source.fields()[0].shape.elements()))};
  std::byte* const slots[] = {reinterpret_cast<std::byte*>(recording.x.data()), reinterpret_cast<std::byte*>(&recording.n),
                              reinterpret_cast<std::byte*>(&recording.y)};
  source.read({.index = index, .epoch = epoch}, std::span(slots, source.fields().size()));
  return recording;
}

inline WantedFrames at_most(int64_t frames) {
  return [frames](const SoundInfo&) { return frames; };
}

inline std::string sixteen_bits(const std::vector<int>& values) {
  std::string samples;
  for (const int value : values) samples += {static_cast<char>(value), static_cast<char>(value >> 8)};
  return samples;
}

inline Recording transformed(const std::string& folder, const std::string& transform, Shape* shape = nullptr) {
  const SourcePtr source =
      open_parsed(R"({"type":"map","source":{"type":"audio","folder":"s"},"transforms":[{"unit":"samples",)" + transform + "}]}", folder);
  if (shape != nullptr) *shape = source->fields()[0].shape;
  return read_recording(*source, 0);
}

inline std::string data_folder() {
  const char* folder = std::getenv("PERIGEE_DATA");
  return folder == nullptr ? "" : folder;
}

#define NEEDS_RECORDINGS() \
  if (data_folder().empty()) GTEST_SKIP() << "PERIGEE_DATA is not set: no expected values"

inline Bytes oracle_file(const std::string& name) {
  static const std::string path = data_folder() + "/oracles/audio/librosa_fsdd.npz";
  static const Bytes archive = read_file(path);
  for (const ZipEntry& entry : zip_entries(archive, path))
    if (entry.name == name + ".npy") return zip_content(archive, entry, path);
  ADD_FAILURE() << name;
  return {};
}

inline Tensor oracle(const std::string& name) { return parse_npy(oracle_file(name), name).to(Dtype::f64); }

// Largest difference, as a share of the largest value.
inline double distance(const float* got, const double* expected, int64_t rows, int64_t columns) {
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < rows * columns; ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    worst = std::max(worst, std::abs(got[i] - expected[i]));
  }
  return worst / largest;
}

// The file that the values were computed from, as it was written.
inline void write_signal(const std::string& folder) {
  const Tensor signal = oracle("signal");
  std::vector<int> samples;
  for (int64_t i = 0; i < signal.elements(); ++i) samples.push_back(static_cast<int>(std::lround(signal.data<double>()[i] * 32768)));
  write_file(folder + "/s/7_jackson_10.wav", as_bytes(wav_of({}, sixteen_bits(samples))));
}

}  // namespace perigee
