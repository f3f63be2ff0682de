#include "src/vectors/files/fasttext_file.h"

#include <cmath>
#include <cstring>

#include "kernels/pair_loops.h"
#include "src/core/error.h"
#include "src/core/host_isa.h"
#include "src/vectors/subwords_of.h"

namespace perigee {
namespace {

constexpr int32_t kMagic = 793712314, kVersion = 12;
constexpr int64_t kMaxWords = int64_t{1} << 26, kMaxFasttextFileNumbers = 1 << 16;

class FasttextFileReader {
 public:
  FasttextFileReader(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  template <class T>
  T read() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::span<const std::byte> take(size_t count) {
    if (bytes_.size() - at_ < count) fail("the file is cut short");
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }
  std::string_view name() {
    const std::string_view rest = as_text(bytes_).substr(at_, 4096);
    const size_t end = rest.find('\0');
    if (end == std::string_view::npos || end == 0) fail("a word has no name, or none that ends");
    at_ += end + 1;
    return rest.substr(0, end);
  }
  size_t left() const { return bytes_.size() - at_; }
  [[noreturn]] void fail(std::string what, std::string got = "", std::string expected = "") const {
    throw Error(ErrorKind::data, {.where = where_ + ": byte " + std::to_string(at_),
                                  .what = std::move(what),
                                  .got = std::move(got),
                                  .expected = std::move(expected)});
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& where_;
  size_t at_ = 0;
};

struct FasttextFileHead {
  int64_t numbers = 0, buckets = 0, least = 0, longest = 0, words = 0;
};

FasttextFileHead read_head(FasttextFileReader& reader) {
  reader.take(sizeof kMagic);
  if (const auto version = reader.read<int32_t>(); version != kVersion)
    reader.fail("the file is of another version of fastText", std::to_string(version), std::to_string(kVersion));
  int32_t arguments[12];  // dim, ws, epoch, minCount, neg, wordNgrams, loss, model, bucket, minn, maxn, lrUpdateRate
  for (int32_t& argument : arguments) argument = reader.read<int32_t>();
  reader.read<double>();  // t
  FasttextFileHead head{.numbers = arguments[0], .buckets = arguments[8], .least = arguments[9], .longest = arguments[10]};
  if (head.numbers < 1 || head.numbers > kMaxFasttextFileNumbers || head.buckets < 0 || head.buckets > kMaxWords || head.least < 0 ||
      head.longest > 64)
    reader.fail("the head has a size that cannot be",
                std::to_string(head.numbers) + " numbers, " + std::to_string(head.buckets) + " buckets");
  const auto size = reader.read<int32_t>();
  head.words = reader.read<int32_t>();
  const auto labels = reader.read<int32_t>();
  if (head.words < 1 || labels < 0 || size != head.words + int64_t{labels} || size > kMaxWords)
    reader.fail("the head has a size that cannot be", std::to_string(head.words) + " words of " + std::to_string(size));
  if (static_cast<size_t>(size) > reader.left() / 10) reader.fail("the file is cut short");
  return head;
}

}  // namespace

bool is_fasttext(std::span<const std::byte> bytes) {
  int32_t magic = 0;
  if (bytes.size() >= sizeof magic) std::memcpy(&magic, bytes.data(), sizeof magic);
  return magic == kMagic;
}

WordVectors parse_fasttext(std::span<const std::byte> bytes, const std::string& where) {
  FasttextFileReader reader(bytes, where);
  const FasttextFileHead head = read_head(reader);
  reader.read<int64_t>();  // words of the text
  if (const auto pruned = reader.read<int64_t>(); pruned > 0)
    reader.fail("the subwords were pruned", std::to_string(pruned), "a model that was not quantised");
  ElementTable names;
  for (int64_t i = 0; i < head.words; ++i) {
    const std::string_view name = reader.name();
    const auto count = reader.read<int64_t>();
    if (reader.read<int8_t>() != 0) reader.fail("the model has labels: it classifies", std::string(name), "a model of words alone");
    if (names.find(name) >= 0) reader.fail("a word comes twice", std::string(name));
    names.add(name, std::clamp<int64_t>(count, 0, int64_t{1} << 40));
  }
  if (reader.read<uint8_t>() != 0) reader.fail("the vectors are quantised", "", "a model that was not quantised");
  const auto rows = reader.read<int64_t>(), columns = reader.read<int64_t>();
  const bool with_subwords = head.longest > 0 && head.buckets > 0;
  if (columns != head.numbers || rows != head.words + (with_subwords ? head.buckets : 0))
    reader.fail("the vectors are of another size", std::to_string(rows) + " x " + std::to_string(columns));
  if (static_cast<size_t>(rows) > reader.left() / (static_cast<size_t>(columns) * sizeof(float))) reader.fail("the file is cut short");
  VectorRows values(rows, columns);
  for (int64_t i = 0; i < rows; ++i) {
    const std::span<const std::byte> row = reader.take(static_cast<size_t>(columns) * sizeof(float));
    std::memcpy(values.row(i), row.data(), row.size());
    for (int64_t k = 0; k < columns; ++k)
      if (!std::isfinite(values.row(i)[k])) reader.fail("a vector has a number that is not finite");
  }
  if (!with_subwords) return WordVectors(std::move(names), values);
  const VectorRows subwords = values.slice(head.words, rows);
  const PairLoops& loops = pair_loops(host_isa());
  std::vector<const float*> parts;
  for (int64_t i = 0; i < head.words; ++i) {
    if (names.name(i) == "</s>") continue;  // the end of a line has no subwords
    parts = {values.row(i)};
    each_subword(names.name(i), head.least, head.longest,
                 [&](std::string_view part) { parts.push_back(subwords.row(subword_bucket(part, head.buckets))); });
    loops.sum(parts.data(), static_cast<int64_t>(parts.size()), values.width, 1 / static_cast<float>(parts.size()), values.row(i));
  }
  WordVectors vectors(std::move(names), values.slice(0, head.words));
  vectors.set_subwords(subwords, head.least, head.longest);
  return vectors;
}

}  // namespace perigee
