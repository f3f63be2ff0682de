#include "src/io/store/s3_listing.h"

#include <cstdlib>
#include <tuple>

#include "src/io/store/credentials.h"

namespace perigee {

S3Page s3_page(std::string_view xml) {
  if (xml.find("<ListBucketResult") == std::string_view::npos) return S3Page::another;
  return xml.find("</ListBucketResult>") == std::string_view::npos ? S3Page::cut : S3Page::whole;
}

void read_s3_page(std::string_view xml, const std::string& prefix, std::vector<StoredEntry>& entries) {
  const auto add = [&](std::string_view block, const char* tag, bool folder) {
    std::string key = percent_decoded(xml_text(block, tag));
    if (!key.starts_with(prefix)) return;
    StoredEntry entry{.name = key.substr(prefix.size()), .folder = folder};
    if (folder && entry.name.ends_with('/')) entry.name.pop_back();
    if (entry.name.empty() || entry.name == "." || entry.name == ".." || entry.name.find('/') != std::string::npos) return;
    if (!folder) {
      entry.size = std::strtoull(xml_text(block, "Size").c_str(), nullptr, 10);
      entry.version = xml_text(block, "ETag");
    }
    entries.push_back(std::move(entry));
  };
  for (const auto& [tag, name, folder] : {std::tuple{"Contents", "Key", false}, {"CommonPrefixes", "Prefix", true}}) {
    const std::string open = "<" + std::string(tag) + ">", close = "</" + std::string(tag) + ">";
    for (size_t at = xml.find(open); at != std::string_view::npos;) {
      const size_t end = xml.find(close, at);
      if (end == std::string_view::npos) break;
      add(xml.substr(at, end - at), name, folder);
      at = xml.find(open, end);
    }
  }
}

}  // namespace perigee
