// Addresses of files that lie elsewhere: s3://bucket/key, hdfs://host/path, https://host/path, sftp://user@host/path. file:// is a local path.
#pragma once

#include <string>
#include <string_view>

namespace perigee {

// "name://…". Every function of src/io that takes a path asks this first.
bool is_store_path(std::string_view path);
// The path behind file://, any other unchanged. Error(usage) when file:// names another machine.
std::string local_path(const std::string& path);
// A path below another: both may be addresses, and an address is always whole. Error(usage) when ".." leads above the root.
std::string store_path_in(const std::string& folder, const std::string& path);

struct StoreUrl {
  std::string text;  // without the password, for people and for names in caches
  std::string scheme, user, password, host;
  int port = 0;      // 0: the scheme's own
  std::string path;  // begins with '/'; as given, not decoded

  std::string host_and_port() const { return port > 0 ? host + ":" + std::to_string(port) : host; }
  // The path without '/' at its begin and end.
  std::string key() const;
};
// Error(usage) when it has no host, a bad port, or control characters.
StoreUrl parse_store_url(const std::string& text);

// %XX for all but letters, digits, "-._~" and those of `keep`: as SigV4 wants it.
std::string percent_encoded(std::string_view text, std::string_view keep = "");
std::string percent_decoded(std::string_view text);  // what is no %XX stays

}  // namespace perigee
