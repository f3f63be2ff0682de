// {"type": "text", "file": "input.txt", "unit": "char", "context": 12}: x are the numbers of `context` units in a row, y is that of the unit
// which follows. Windows overlap, so a text is cut into parts before it is cut into windows: none of the test part shows what another was
// trained on. The vocabulary is fitted on the training part and is fitted(): every other text is read by it.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <optional>

#include "src/data/streams.h"
#include "src/data/text_source.h"
#include "src/io/codec/compress.h"
#include "src/io/codec/encoding.h"
#include "src/text/text_numbers.h"

namespace perigee {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{1} << 33;  // of all files together
constexpr int64_t kMaxContext = 1 << 16;

// A stretch of text that windows do not cross the ends of.
struct TextPiece {
  std::string path;
  std::string_view text;
  uint64_t offset = 0;  // of it in the file
};

struct TextFile {
  std::string path;
  std::string_view content;
  std::shared_ptr<const void> owner = {};  // none of a text in memory
  std::string_view text() const { return content; }
};

void check_size(uint64_t bytes, const std::string& where) {
  if (bytes > kMaxTextBytes)
    throw Error(ErrorKind::resources, {.where = where,
                                       .what = "the text is too large",
                                       .got = std::to_string(bytes) + " bytes",
                                       .expected = "at most " + std::to_string(kMaxTextBytes)});
}

std::vector<TextFile> open_files(const Config& config, const std::string& folder) {
  std::vector<TextFile> files;
  uint64_t bytes = 0;
  for (const std::string& name : config.string_list("file")) {
    const std::string path = path_in(folder, name);
    const auto content = std::make_shared<const FileContent>(FileContent::open(path, kMaxTextBytes));
    DecodedText decoded = decoded_text(as_text(content->bytes()), config.string("encoding", ""), path);
    files.push_back({path, decoded.text, decoded.owner ? std::move(decoded.owner) : content});
    bytes += files.back().text().size();
    check_size(bytes, path);
  }
  if (files.empty()) config.fail("file", "is missing", "", "a text file, or a list of them");
  return files;
}

// Where each part of the text ends, as a share of all of it; parts follow each other in this order.
constexpr const char* kTextParts[] = {"train", "validation", "test"};
struct Share {
  double from = 0, to = 0;
};

Share share_of(const Config& parts, const std::string& part) {
  Share share, wanted;
  for (const char* name : kTextParts) {
    share.from = share.to;
    share.to += parts.number_in(name, 0, 1, 0);
    if (part == name) wanted = share;
  }
  parts.reject_unread();
  if (share.to > 1 + 1e-9) parts.fail("train", "and the other parts are more than the whole", Json(share.to).dump(), "a sum of at most 1");
  if (wanted.to <= wanted.from) parts.fail(part, "is not among the parts", "", "its share of the text, such as 0.1");
  return wanted;
}

bool between_units(std::string_view text, size_t at, bool words) {
  if (at == 0 || at == text.size()) return true;
  if (words) return text[at - 1] == ' ' || (text[at - 1] >= '\t' && text[at - 1] <= '\r');
  return (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
}

// The pieces of the files from one share of their bytes to another. A border inside a unit moves to its end, in every part alike.
std::vector<TextPiece> cut(const std::vector<TextFile>& files, const Share& share, bool words) {
  uint64_t all = 0, begin = 0;
  for (const TextFile& file : files) all += file.text().size();
  const auto border = [&](double at) { return at >= 1 - 1e-9 ? all : static_cast<uint64_t>(std::llround(at * static_cast<double>(all))); };
  const uint64_t from = border(share.from), to = border(share.to);
  std::vector<TextPiece> pieces;
  for (const TextFile& file : files) {
    const std::string_view text = file.text();
    const auto inside = [&](uint64_t at) {
      size_t cut = at <= begin ? 0 : static_cast<size_t>(std::min<uint64_t>(at - begin, text.size()));
      while (!between_units(text, cut, words)) ++cut;
      return cut;
    };
    size_t low = inside(from);
    const size_t high = inside(to);
    if (low == 0 && text.starts_with("\xef\xbb\xbf")) low = 3;  // a byte order mark
    if (low < high) pieces.push_back({file.path, text.substr(low, high - low), low});
    begin += text.size();
  }
  return pieces;
}

Vocabulary fit(const Config& config, const std::string& name, const std::vector<TextPiece>& pieces, const VocabularyOptions& options) {
  UnitCounts counts;
  for (const TextPiece& piece : pieces) {
    UnitReader reader(piece.text, options.units, piece.path, piece.offset);
    counts.add(reader);
  }
  if (counts.map().empty()) throw Error(ErrorKind::data, {.where = name, .what = "there is no text to learn a vocabulary from"});
  Vocabulary vocabulary(counts, options);
  if (vocabulary.size() < (options.unknown ? 2 : 1)) config.fail("min_count", "leaves no vocabulary", std::to_string(options.min_count));
  return vocabulary;
}

// The numbers of a text's units, one after the other, as narrow as the vocabulary allows.
class TextSourceNumbers {
 public:
  explicit TextSourceNumbers(int64_t vocabulary) : width_(vocabulary <= 1 << 8 ? 1 : vocabulary <= 1 << 16 ? 2 : 4) {}
  void reserve(size_t count) { bytes_.reserve(count * width_); }
  void push(int64_t number) {
    const auto value = static_cast<uint32_t>(number);
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);  // little-endian, like all machines that this runs on
    bytes_.insert(bytes_.end(), bytes, bytes + width_);
  }
  void finish() { bytes_.shrink_to_fit(); }
  int64_t size() const { return static_cast<int64_t>(bytes_.size() / width_); }
  const std::byte* at(int64_t index) const { return bytes_.data() + static_cast<size_t>(index) * width_; }

  void read(int64_t from, int64_t count, std::byte* slot) const {
    assert(from >= 0 && from + count <= size());
    auto* to = reinterpret_cast<int64_t*>(slot);
    const auto widen = [&]<class T>(const T* numbers) {
      for (int64_t i = 0; i < count; ++i) to[i] = numbers[i];
    };
    if (width_ == 1) widen(reinterpret_cast<const uint8_t*>(at(from)));
    else if (width_ == 2) widen(reinterpret_cast<const uint16_t*>(at(from)));
    else widen(reinterpret_cast<const uint32_t*>(at(from)));
  }

 private:
  size_t width_;
  std::vector<std::byte> bytes_;
};

// The target y: the next unit, the next unit at every position, or nothing.
enum class Targets { next, every, none };

struct Windows {
  int64_t context = 0, stride = 1;
  int64_t streams = 0;  // lanes, in which windows follow each other without a gap; 0: windows stand alone
  Targets targets = Targets::next;
  int64_t span() const { return context + (targets == Targets::none ? 0 : 1); }
  // In a text of so many units.
  int64_t count(int64_t units) const { return units < span() ? 0 : (units - span()) / stride + 1; }
};

class TextSource : public DataSource, public StreamedSource {
 public:
  TextSource(const std::vector<TextPiece>& pieces, const TextNumbers& vocabulary, const Windows& windows, std::string name, Json fitted)
      : name_(std::move(name)), vocabulary_(vocabulary.size()), windows_(windows), numbers_(vocabulary_), fitted_(std::move(fitted)) {
    fields_.push_back({.name = "x", .dtype = Dtype::i64, .shape = {windows.context}});
    if (windows.targets == Targets::next)
      fields_.push_back({.name = "y", .dtype = Dtype::i64, .shape = {}, .classes = vocabulary.size(), .class_names = vocabulary.names()});
    if (windows.targets == Targets::every) fields_.push_back({.name = "y", .dtype = Dtype::i64, .shape = {windows.context}});
    size_t bytes = 0;
    for (const TextPiece& piece : pieces) bytes += piece.text.size();
    numbers_.reserve(vocabulary.between_blanks() ? bytes / 6 : bytes);
    for (const TextPiece& piece : pieces) add(piece, vocabulary);
    numbers_.finish();
    if (windows_.streams > 0) {
      lane_ = (numbers_.size() - (windows_.span() - windows_.context)) / (windows_.streams * windows_.context);
      if (lane_ > 0) begins_ = {0}, ends_ = {lane_ * windows_.streams};
      else begins_.clear(), ends_.clear();
    }
  }

  int64_t streams() const override { return windows_.streams; }

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  int64_t units() const { return numbers_.size(); }
  const std::vector<Field>& fields() const override { return fields_; }
  SourceTraits traits() const override {
    return {
        .description = "text " + name_ + " (" + std::to_string(size()) + " examples, vocabulary of " + std::to_string(vocabulary_) + ")",
        .fitted = fitted_,
        .cheap = true,
        .touches = true};
  }

  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    assert(key.index >= 0 && key.index < size() && slots.size() == fields_.size());
    const int64_t at = place(key.index);
    numbers_.read(at, windows_.context, slots[0]);
    if (windows_.targets == Targets::next) numbers_.read(at + windows_.context, 1, slots[1]);
    if (windows_.targets == Targets::every) numbers_.read(at + 1, windows_.context, slots[1]);
  }

  void expect(std::span<const ReadKey> keys) const override {
    for (const ReadKey& key : keys) __builtin_prefetch(numbers_.at(place(key.index)));
  }

 private:
  void add(const TextPiece& piece, const TextNumbers& vocabulary) {
    const int64_t first = numbers_.size();
    vocabulary.read(piece.text, piece.path, piece.offset, false, [&](int64_t number) { numbers_.push(number); });
    const int64_t windows = windows_.count(numbers_.size() - first);
    if (windows == 0) return;
    begins_.push_back(first);
    ends_.push_back(size() + windows);
  }

  // The window's position in numbers_: O(1), or O(log files).
  int64_t place(int64_t index) const {
    if (windows_.streams > 0) return (index % windows_.streams * lane_ + index / windows_.streams) * windows_.context;
    const size_t piece = ends_.size() == 1 ? 0 : static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
    return begins_[piece] + (index - (piece > 0 ? ends_[piece - 1] : 0)) * windows_.stride;
  }

  std::string name_;
  int64_t vocabulary_;
  Windows windows_;
  TextSourceNumbers numbers_;
  int64_t lane_ = 0;                    // windows of each lane
  std::vector<int64_t> begins_, ends_;  // of each piece that has windows: its first unit, its last window and one
  std::vector<Field> fields_;
  Json fitted_;
};

constexpr const char* kTargetNames[] = {"next", "every", "none"};

// A model's other texts are read as it reads: they need not say it again.
Windows windows_of(const Config& config) {
  const Config of_model = config.has("fitted") ? config.object("fitted") : config;
  Windows windows;
  windows.context = (config.has("context") ? config : of_model).integer_in("context", 1, kMaxContext);
  windows.stride = config.integer("stride");
  windows.streams = config.integer("streams");
  if (windows.streams > 0 && config.has("stride"))
    config.fail("stride", "belongs to windows that stand alone; in streams one follows the other", config.raw("stride")->dump(),
                "streams without stride");
  const std::vector<std::string> names{std::begin(kTargetNames), std::end(kTargetNames)};
  const std::string targets = config.choice("targets", of_model.choice("targets", "next", names), names);
  windows.targets = static_cast<Targets>(std::find(names.begin(), names.end(), targets) - names.begin());
  return windows;
}

VocabularyOptions vocabulary_options(const Config& config) {
  return {.units = {.words = config.choice("unit") == "word", .lowercase = config.boolean("lowercase")},
          .unknown = config.boolean("unknown"),
          .min_count = config.integer("min_count"),
          .max_size = config.integer("max_vocabulary")};
}

// The vocabulary that the description was given; it must not contradict what else the description says.
std::optional<TextNumbers> given_vocabulary(const Config& config, const VocabularyOptions& options, const std::string& folder) {
  if (!config.has("fitted")) {
    if (!config.has("tokenizer")) return {};
    for (const char* key : {"lowercase", "min_count", "max_vocabulary", "unknown"})
      if (config.has(key)) config.fail(key, "belongs to vocabularies that are learned", config.raw(key)->dump(), "a tokenizer has its own");
    const std::string path = path_in(folder, config.string("tokenizer"));
    return std::optional<TextNumbers>(std::in_place, as_text(FileContent::open(path, Tokenizer::kMaxFile).bytes()), path);
  }
  std::optional<TextNumbers> given(std::in_place, config.object("fitted"));
  const auto check = [&](const char* key, bool wanted, bool have) {
    if (config.has(key) && wanted != have)
      config.fail(key, "is not what the vocabulary was fitted with", config.raw(key)->dump(), "as in the training data");
  };
  const std::string unit = given->tokenizer() ? "token" : given->vocabulary()->units().words ? "word" : "char";
  check("unit", true, config.choice("unit") == unit);
  if (given->vocabulary() != nullptr) check("lowercase", options.units.lowercase, given->vocabulary()->units().lowercase);
  return given;
}

SourcePtr open_texts(const Config& config, const std::vector<TextFile>& files, const std::string& folder) {
  const Windows windows = windows_of(config);
  const VocabularyOptions options = vocabulary_options(config);
  std::optional<TextNumbers> vocabulary = given_vocabulary(config, options, folder);
  if (!vocabulary && config.choice("unit") == "token") config.fail("unit", "needs 'tokenizer', a file that says what a token is");
  if (config.has("tokenizer") && config.has("unit") && config.choice("unit") != "token")
    config.fail("unit", "is that of the tokenizer", config.raw("unit")->dump(), "token");
  const bool words = vocabulary ? vocabulary->between_blanks() : options.units.words;

  std::string name = files[0].path, part = config.string("part", "train");
  if (files.size() > 1) name += " and " + std::to_string(files.size() - 1) + " more";
  Share training{0, 1}, share{0, 1};
  if (config.has("parts")) {
    const Config parts = config.object("parts");
    training = share_of(parts, "train");
    share = share_of(parts, config.choice("part", "train", {std::begin(kTextParts), std::end(kTextParts)}));
    name += " " + part;
  } else if (config.has("part")) {
    config.fail("part", "needs 'parts', the shares of the text", "", R"({"train": 0.9, "test": 0.1})");
  }
  if (!vocabulary) vocabulary.emplace(fit(config, name, cut(files, training, words), options));

  Json kept = vocabulary->to_json();
  kept.set("type", "text");
  kept.set("context", windows.context);
  kept.set("targets", kTargetNames[static_cast<int>(windows.targets)]);
  auto source = std::make_shared<TextSource>(cut(files, share, words), *vocabulary, windows, name, std::move(kept));
  if (source->size() == 0)
    throw Error(ErrorKind::data, {.where = name,
                                  .what = windows.streams > 0 ? "the text is shorter than one window for each stream"
                                                              : "the text is shorter than one window",
                                  .got = std::to_string(source->units()) + " " + vocabulary->unit() + "s",
                                  .expected = "at least " + std::to_string(std::max<int64_t>(1, windows.streams) * windows.context +
                                                                           windows.span() - windows.context),
                                  .hint = "'context' says how long a window is"});
  return source;
}

SourcePtr open_text(const Config& config, const std::string& folder) { return open_texts(config, open_files(config, folder), folder); }

constexpr const char* kTextPositional[] = {"file"};
constexpr Option kShareOptions[] = {{"train", "number", "0", "share of the training part", {0, 1}},
                                    {"validation", "number", "0", "of the validation part", {0, 1}},
                                    {"test", "number", "0", "of the test part", {0, 1}}};
constexpr Schema kTextShares{.options = kShareOptions};
constexpr Option kTextOptions[] = {
    {"file", "list of names", nullptr, "one or several files, also .gz, .xz and .zst"},
    {"context", "integer", "the training part's", "characters, words or tokens of a window", {1}},
    {"unit", "name", "char", "what is counted", {}, {"char", "word", "token"}},
    {"tokenizer", "file", "none", "tokenizer.json of Hugging Face or .model of SentencePiece: tokens are counted"},
    {"stride", "integer", "1", "from one window to the next", {1, 1099511627776}},
    {"streams", "integer", "0", "lanes of text that go on from batch to batch; 0: windows stand alone", {0, 65536}},
    {"targets", "name", "next", "what is foretold", {}, {"next", "every", "none"}},
    {"lowercase", "boolean", "false", "letters are made small"},
    {"min_count", "integer", "1", "rarer ones are unknown", {1, 1099511627776}},
    {"max_vocabulary", "integer", "65536", "more are unknown", {2, 1048576}},
    {"unknown", "boolean", "true", "there is a number for the unknown"},
    {"encoding", "name", kEncodingFallback, kEncodingDoc},
    {"parts", "table", "none", "shares of the text by name", {}, {}, nullptr, &kTextShares},
    {"part", "name", "train", "which of the parts this source gives", {}, {"train", "validation", "test"}},
    {"fitted", "table", "none", "vocabulary of the training part"}};

}  // namespace

SourcePtr text_source(const Config& config, std::string_view text, const std::string& where) {
  check_size(text.size(), where);
  return open_texts(config, {{.path = where, .content = text}}, "");
}

extern const SourceDef source_text;
const SourceDef source_text{
    .type = "text",
    .doc =
        "Windows of 'context' characters, words or tokens of a text 'file' (one or several, also .gz, .xz and .zst), to foretell what "
        "follows. "
        "Options: "
        "unit ('char', 'word', or 'token' with 'tokenizer', a file of Hugging Face or SentencePiece), stride (1), streams (0: windows "
        "stand alone; else the text is cut into so many lanes, and each "
        "window goes on where the one before it in the lane ended), targets ('next', 'every' position or 'none'), lowercase (false), "
        "min_count (1), "
        "max_vocabulary "
        "(65536), unknown (true), encoding, parts (shares of the text by name) and part ('train', 'validation' or 'test')",
    .schema = {.options = kTextOptions, .positional = kTextPositional},
    .open = open_text};

}  // namespace perigee
