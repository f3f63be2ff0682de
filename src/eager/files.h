// Arrays from files and to files; the format follows from the name: .npy, .npz, .safetensors, .csv, .png, .jpg.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/eager/array.h"

namespace perigee {

struct ArrayFile {
  bool named = false;  // .npz and .safetensors hold arrays by name, the others one
  std::vector<std::pair<std::string, Array>> arrays;
  std::map<std::string, std::string> metadata;  // of .safetensors
  std::vector<std::string> header;              // of .csv
};

// CSV is f32 [rows, columns]; a first line that has something else than numbers is a header. Images are u8 [channels, height, width]. Error(data)
// with place for damage and for cells that are no numbers; Error(usage) for other names.
ArrayFile read_arrays(const std::string& path);
void write_arrays(const std::string& path, const ArrayFile& file);

}  // namespace perigee
