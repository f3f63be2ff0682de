// Calls of src/io/store for the tests with servers (tests/stores): one command a line on standard input, fields between tabs; an answer
// as one line of JSON each.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>

#include "src/core/error.h"
#include "src/core/json.h"
#include "src/io/digest.h"
#include "src/io/file.h"
#include "src/io/store/published.h"
#include "src/io/store/store.h"

namespace perigee {
namespace {

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line)
    if (c == '\t') fields.emplace_back();
    else fields.back() += c;
  fields.resize(std::max<size_t>(5, fields.size()));
  return fields;
}

std::optional<PublishedFolder> held;

// load URL… (their sizes and the time) | claim URL FOLDER [fresh] | publish | fetch URL FOLDER | stat URL | list URL | read URL | range URL OFFSET SIZE | expect URL | put URL FILE [absent | =VERSION] | remove URL
Json answer(const std::vector<std::string>& f) {
  Json result = Json::object();
  if (f[0] == "stat") {
    const StoredInfo info = stat_stored(f[1]);
    result.set("kind", static_cast<int>(info.kind));
    result.set("size", static_cast<int64_t>(info.size));
    result.set("version", info.version);
  } else if (f[0] == "list") {
    Json names = Json::array();
    for (const StoredEntry& entry : list_stored(f[1])) names.push(entry.name + (entry.folder ? "/" : ":" + std::to_string(entry.size)));
    result.set("entries", names);
  } else if (f[0] == "read") {
    const Bytes bytes = read_file(f[1]);
    result.set("size", static_cast<int64_t>(bytes.size()));
    result.set("sha256", sha256_hex(bytes));
  } else if (f[0] == "load") {
    const auto begun = std::chrono::steady_clock::now();
    int64_t size = 0;
    for (size_t i = 1; i < f.size() && !f[i].empty(); ++i) size += static_cast<int64_t>(read_file(f[i]).size());
    result.set("size", size);
    result.set("seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  } else if (f[0] == "range") {
    Bytes bytes(std::stoull(f[3]));
    read_stored_range(f[1], std::stoull(f[2]), bytes);
    result.set("sha256", sha256_hex(bytes));
  } else if (f[0] == "expect") {
    expect_stored({&f[1], 1});
  } else if (f[0] == "put") {
    const MappedFile file(f[2]);
    const std::span<const std::byte> pieces[] = {file.bytes().first(file.bytes().size() / 2),
                                                 file.bytes().subspan(file.bytes().size() / 2)};
    PutCondition condition{.absent = f[3] == "absent"};
    if (f[3].starts_with('=')) condition.version = f[3].substr(1);
    result.set("written", put_stored(f[1], pieces, condition));
  } else if (f[0] == "claim") {
    held.emplace(f[1], f[2], f[3] == "fresh");
    result.set("generation", held->generation());
  } else if (f[0] == "publish") {
    held->publish();
  } else if (f[0] == "fetch") {
    const PublishedState manifest = fetch_published(f[1], f[2]);
    result.set("sequence", manifest.sequence);
    result.set("generation", manifest.generation);
  } else if (f[0] == "remove") {
    remove_stored(f[1]);
  }
  return result;
}

}  // namespace
}  // namespace perigee

int main() {
  using namespace perigee;
  for (std::string line; std::getline(std::cin, line);) {
    Json result;
    try {
      result = answer(fields_of(line));
    } catch (const Error& error) {
      result = Json(Json::Object{{"error", error.what()}, {"kind", static_cast<int>(error.kind())}});
    }
    std::printf("%s\n", result.dump().c_str());
    std::fflush(stdout);
  }
}
