#include "src/model/records/record_format.h"

#include <algorithm>
#include <cctype>

#include "src/io/file.h"
#include "src/io/image.h"
#include "src/io/sound/sound.h"

namespace perigee {

std::string record_suffix(std::string path) {
  const auto take = [&] {
    const size_t dot = path.rfind('.');
    if (dot == std::string::npos || path.find('/', dot) != std::string::npos) return std::string();
    std::string suffix = path.substr(dot + 1);
    std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    path.resize(dot);
    return suffix;
  };
  const std::string last = take();
  return last == "gz" || last == "xz" ? take() : last;
}

RecordFormat guessed_format(std::span<const std::byte> bytes, bool text_model) {
  const std::string_view text = as_text(bytes);
  if (text.starts_with("\x93NUMPY")) return RecordFormat::npy;
  if (text.starts_with("PK\x03\x04")) return RecordFormat::npz;
  if (image_kind(bytes) != ImageKind::none) return RecordFormat::image;
  if (text_model) return RecordFormat::text;
  if (is_sound(bytes)) return RecordFormat::sound;
  const size_t first = text.find_first_not_of(" \t\r\n", text.starts_with("\xef\xbb\xbf") ? 3 : 0);
  return first != text.npos && (text[first] == '{' || text[first] == '[') ? RecordFormat::json : RecordFormat::csv;
}

}  // namespace perigee
