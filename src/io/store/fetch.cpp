#include "src/io/store/fetch.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <thread>

#include "src/core/cores.h"
#include "src/core/error.h"
#include "src/io/store/known.h"

namespace perigee {
namespace {

// Neighbouring blocks that one request brings: a server takes as long to begin an answer as to send a megabyte of it.
struct Stretch {
  std::span<StoredBlock> blocks;
  std::span<std::byte> into;
  std::shared_ptr<Transfer> transfer = nullptr;
  size_t kept = 0;  // blocks that the cache has
};

constexpr size_t kStretchesAtOnce = 16;
constexpr uint64_t kMostStretch = uint64_t{64} << 20, kStretches = 8;

// Blocks that follow each other in the object and in memory. An object that is large enough comes by several connections.
std::vector<Stretch> stretches_of(std::span<StoredBlock> blocks) {
  uint64_t total = 0;
  for (const StoredBlock& block : blocks) total += block.into.size();
  const uint64_t most = std::clamp(total / kStretches, kLeastStretch, kMostStretch);
  std::vector<Stretch> stretches;
  for (size_t begin = 0, end; begin < blocks.size(); begin = end) {
    std::span<std::byte> into = blocks[begin].into;
    for (end = begin + 1; end < blocks.size(); ++end) {
      const StoredBlock& next = blocks[end];
      const bool follows = next.offset == blocks[begin].offset + into.size() && next.into.data() == into.data() + into.size();
      if (!follows || into.size() + next.into.size() > most) break;
      into = {into.data(), into.size() + next.into.size()};
    }
    stretches.push_back({blocks.subspan(begin, end - begin), into});
  }
  return stretches;
}

// Puts blocks into the cache of which the last byte is among the first `count` of the stretch.
void keep_arrived(const StoreUrl& url, const StoredInfo& info, Stretch& stretch, uint64_t count) {
  for (; stretch.kept < stretch.blocks.size(); ++stretch.kept) {
    const StoredBlock& block = stretch.blocks[stretch.kept];
    if (block.offset - stretch.blocks[0].offset + block.into.size() > count) return;
    keep_block(url.text, info.version, block.offset, block.into);
  }
}

bool tells_another_version(const Transfer& answer, const std::string& version) {
  const std::string tag = answer.header("etag"), modified = answer.header("last-modified");
  if (version.starts_with('"')) return tag.starts_with('"') && tag != version;
  return version.ends_with(" GMT") && !modified.empty() && modified != version;  // a date, where the server has no tag
}

}  // namespace

std::shared_ptr<Transfer> checked_reading(Store& store, const StoreUrl& url, uint64_t offset, std::span<std::byte> into,
                                          const StoredInfo& info) {
  auto transfer = store.reading(url, offset, into.size(), info);
  transfer->into = into;
  transfer->accepts = [offset, size = into.size(), whole = info.size, version = info.version](int status, const Transfer& answer) {
    if (tells_another_version(answer, version)) return PartFault::changed;
    if (answer.ranged && status == 200 && size != whole) return PartFault::other_part;
    if (status != 206) return PartFault::none;
    uint64_t begin = 0, end = 0, total = 0;
    const int read = std::sscanf(answer.header("content-range").c_str(), "bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64, &begin, &end, &total);
    if (read < 2) return answer.ranged ? PartFault::other_part : PartFault::none;
    if (read == 3 && total != whole) return PartFault::changed;
    return begin == offset && end == offset + size - 1 ? PartFault::none : PartFault::other_part;
  };
  return transfer;
}

namespace {

[[noreturn]] void refuse_part(const StoreUrl& url, const Transfer& answer) {
  const std::string range = answer.header("content-range");
  const std::string host = answer.effective.empty() ? url.host : parse_store_url(answer.effective).host;  // s3://: url's is the bucket
  const bool part = answer.answer_headers.substr(0, answer.answer_headers.find('\n')).find(" 206") != std::string::npos;
  throw Error(ErrorKind::resources, {.where = url.text,
                                     .what = "the server, or a proxy before it, sends another part of the file than was asked for",
                                     .got = !range.empty() ? range
                                            : part         ? "a part without its place"
                                                           : "the whole file",
                                     .hint = "go around the proxy, by no_proxy=" + host + ", or download the file first"});
}

// `keeps`: blocks are written while later ones still come.
void begin_stretch(Store& store, const StoreUrl& url, const StoredInfo& info, Stretch& stretch, bool keeps) {
  stretch.transfer = checked_reading(store, url, stretch.blocks[0].offset, stretch.into, info);
  if (keeps) stretch.transfer->arrived = [&](uint64_t count) { keep_arrived(url, info, stretch, count); };
  // An answer that is shorter than it says of itself is a lost connection; one that says so itself is tried again as well.
  auto again = stretch.transfer->again;
  const uint64_t size = stretch.into.size();
  stretch.transfer->again = [again, size](Transfer& t) { return (t.ok() && !t.too_long && t.received < size) || (again && again(t)); };
}

bool came(const Stretch& stretch) {
  const Transfer& answer = *stretch.transfer;
  return answer.ok() && answer.problem.empty() && answer.received == stretch.into.size();
}

void refuse_stretch(Store& store, const StoreUrl& url, const Stretch& stretch) {
  Transfer& answer = *stretch.transfer;
  if (answer.part_fault == PartFault::other_part) refuse_part(url, answer);
  const bool grown = answer.too_long && !answer.ranged;
  if (grown || answer.part_fault == PartFault::changed || answer.status == 416 || answer.status == 412) refuse_changed(url);
  if (answer.ok() && answer.problem.empty())
    throw Error(ErrorKind::resources, {.where = url.text,
                                       .what = "the server sends too few bytes, " + std::to_string(answer.attempts) + " times",
                                       .got = std::to_string(answer.received),
                                       .expected = std::to_string(stretch.into.size())});
  store.refuse(url, answer);
}

}  // namespace

// Where answers do not tell their version, nothing counts or is kept before the store has been asked again. A file within one block needs no
// question: it comes by one request, of which a longer one shows by its length, and is whole in either version.
void fetch_store(Store& store, const StoreUrl& url, const StoredInfo& info, std::span<StoredBlock> blocks) {
  const bool tells = store.answers_tell_version() || info.size < kBlockBytes;
  std::vector<Stretch> stretches = stretches_of(blocks);
  for (size_t begin = 0; begin < stretches.size(); begin += kStretchesAtOnce) {
    const auto now = std::span(stretches).subspan(begin, std::min(kStretchesAtOnce, stretches.size() - begin));
    std::vector<Transfer*> transfers;
    for (Stretch& stretch : now) {
      begin_stretch(store, url, info, stretch, tells);
      transfers.push_back(stretch.transfer.get());
    }
    perform(transfers, url.text);
    if (!tells && std::any_of(now.begin(), now.end(), came) && !store.still_is(url, info)) {
      Known::shared().forget(url.text);
      refuse_changed(url);
    }
    for (Stretch& stretch : now) {
      if (!came(stretch)) {
        Known::shared().forget(url.text);
        refuse_stretch(store, url, stretch);
      }
      keep_arrived(url, info, stretch, stretch.into.size());
      stretch.transfer.reset();
    }
  }
}

std::vector<StoredBlock> blocks_not_kept(const StoreUrl& url, const StoredInfo& info, std::span<std::byte> bytes,
                                         decltype(find_block)* find) {
  constexpr size_t kMostThreads = 4, kBlocksOfThread = 2;
  const uint64_t step = info.whole ? std::max<uint64_t>(1, info.size) : kBlockBytes;
  std::vector<StoredBlock> blocks;
  if (bytes.empty()) return blocks;
  for (uint64_t offset = 0; offset < info.size; offset += step)
    blocks.push_back({offset, bytes.subspan(offset, std::min(step, info.size - offset))});
  std::vector<uint8_t> found(blocks.size());
  found[0] = find(url.text, info.version, 0, blocks[0].into);  // and reads the settings, of which one may be wrong
  std::atomic<size_t> next{1};
  const auto read = [&] {
    for (size_t i = next++; i < blocks.size(); i = next++) found[i] = find(url.text, info.version, blocks[i].offset, blocks[i].into);
  };
  const size_t threads = std::min({kMostThreads, static_cast<size_t>(available_cores()), blocks.size() / kBlocksOfThread});
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) others.emplace_back(read);
  read();
  for (std::thread& other : others) other.join();
  std::vector<StoredBlock> missing;
  for (size_t i = 0; i < blocks.size(); ++i)
    if (!found[i]) missing.push_back(blocks[i]);
  return missing;
}

}  // namespace perigee
