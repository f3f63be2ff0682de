// Formats that records come in, by the name of a file or by its first bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace perigee {

enum class RecordFormat { automatic, csv, json, image, sound, text, npy, npz };

// The suffix of a path in small letters, without that of a compression; "" where it has none.
std::string record_suffix(std::string path);
// The format of a content, never automatic; what no format is known by is CSV, to a model of text a text.
RecordFormat guessed_format(std::span<const std::byte> bytes, bool text_model);

}  // namespace perigee
