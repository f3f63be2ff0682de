#include "src/io/store/url.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "src/core/error.h"

namespace perigee {
namespace {

constexpr size_t kLongestUrl = 4096;

bool letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

[[noreturn]] void refuse_url(const std::string& text, const char* what, std::string hint = "") {
  throw Error(ErrorKind::usage, {.where = text.substr(0, 200), .what = what, .expected = "NAME://host/path", .hint = std::move(hint)});
}

}  // namespace

bool is_store_path(std::string_view path) {
  const size_t end = path.find("://");
  if (end == std::string_view::npos || end < 2 || end > 20 || !std::isalpha(static_cast<unsigned char>(path[0]))) return false;
  return std::all_of(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(end),
                     [](char c) { return letter_or_digit(c) || c == '+' || c == '-' || c == '.'; });
}

std::string local_path(const std::string& path) {
  constexpr std::string_view kScheme = "file://";
  if (!path.starts_with(kScheme)) return path;
  std::string rest = path.substr(kScheme.size());
  if (rest.starts_with("localhost/")) rest.erase(0, 9);
  if (!rest.starts_with('/')) refuse_url(path, "file:// names another machine", "file:///data/x.csv is the local /data/x.csv");
  return percent_decoded(rest);
}

std::string store_path_in(const std::string& folder, const std::string& path) {
  if (is_store_path(path)) return local_path(path);
  // A path of the machine does not lead into a store: PERIGEE_DATA=s3://… with folder = "/data" reads /data.
  if (path.starts_with('/')) return path;
  std::vector<std::string> parts;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part != "..") parts.push_back(part);
    else if (parts.empty()) refuse_url(path, "leads out of the folder in the store", "give a path without '..'");
    else parts.pop_back();
  }
  std::string joined = folder;
  while (joined.ends_with('/') && !joined.ends_with("://")) joined.pop_back();
  for (const std::string& part : parts) (joined += '/') += part;
  return joined;
}

std::string StoreUrl::key() const {
  size_t begin = 0, end = path.size();
  while (begin < end && path[begin] == '/') ++begin;
  while (end > begin && path[end - 1] == '/') --end;
  return path.substr(begin, end - begin);
}

StoreUrl parse_store_url(const std::string& text) {
  StoreUrl url;
  const size_t scheme_end = text.find("://");
  if (!is_store_path(text) || text.size() > kLongestUrl) refuse_url(text, "is no address of a file");
  if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; }))
    refuse_url("the address of a file", "has control characters");
  url.scheme = text.substr(0, scheme_end);
  std::transform(url.scheme.begin(), url.scheme.end(), url.scheme.begin(), [](char c) { return static_cast<char>(std::tolower(c)); });
  const size_t host_at = scheme_end + 3, path_at = std::min(text.find('/', host_at), text.size());
  std::string host = text.substr(host_at, path_at - host_at);
  url.path = path_at < text.size() ? text.substr(path_at) : "/";
  if (const size_t at = host.rfind('@'); at != std::string::npos) {
    const std::string user = host.substr(0, at);
    const size_t colon = std::min(user.find(':'), user.size());
    url.user = percent_decoded(user.substr(0, colon));
    if (colon < user.size()) url.password = percent_decoded(user.substr(colon + 1));
    host.erase(0, at + 1);
  }
  // Several NameNodes, each with its port, are one host here.
  const bool several = url.scheme.ends_with("hdfs") && host.find(',') != std::string::npos;
  const size_t colon = several ? std::string::npos : host.find(':', host.starts_with('[') ? std::min(host.find(']'), host.size()) : 0);
  if (colon != std::string::npos) {
    const std::string port = host.substr(colon + 1);
    const bool digits =
        !port.empty() && port.size() <= 5 && std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || std::stoi(port) < 1 || std::stoi(port) > 65535) refuse_url(url.scheme + "://" + host, "has a port that is none");
    url.port = std::stoi(port);
    host.erase(colon);
  }
  if (!std::all_of(host.begin(), host.end(), [&](char c) {
        return letter_or_digit(c) || std::string_view("-._:[]").find(c) != std::string_view::npos || (several && c == ',');
      }))
    refuse_url(url.scheme + "://" + host, "has a host that is no name");
  url.host = host;
  url.text = url.scheme + "://" + (url.user.empty() ? "" : url.user + "@") + url.host_and_port() + url.path;
  return url;
}

std::string percent_encoded(std::string_view text, std::string_view keep) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 128 && letter_or_digit(c)) || std::string_view("-._~").find(c) != std::string_view::npos ||
        keep.find(c) != std::string_view::npos)
      result += c;
    else ((result += '%') += kDigits[byte >> 4]) += kDigits[byte & 15];
  }
  return result;
}

std::string percent_decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = i + 2 < text.size() && text[i] == '%' ? hex_value(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_value(text[i + 2]) : -1;
    if (low < 0) {
      result += text[i];
      continue;
    }
    result += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return result;
}

}  // namespace perigee
