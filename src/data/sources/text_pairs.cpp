// {"type": "text_pairs", "file": "dates.csv"}: texts and what each of them becomes, such as its translation, for a network with an encoder, which
// reads the one, and a decoder, which writes the other and reads what it should have written so far. Both vocabularies are learned from the
// training part, or are a tokenizer's, and are fitted(). One number more than the second one has stands for an output's beginning and end.
#include <algorithm>
#include <optional>

#include "src/data/source.h"
#include "src/data/table.h"
#include "src/io/codec/compress.h"
#include "src/io/confined.h"
#include "src/text/text_numbers.h"

namespace perigee {
namespace {

constexpr uint64_t kMaxTextPairsBytes = uint64_t{1} << 33;
constexpr int64_t kMaxTextPairsLength = 1 << 20;

struct TextPair {
  std::string place;  // "dates.csv:7"
  std::string_view input, output;
};

struct TextPairs {
  std::string where;
  std::vector<TextPair> list;
  std::vector<std::shared_ptr<const void>> owners;
};

void add_rows(const Config& config, const Table& table, TextPairs& pairs) {
  int64_t at[2];
  const char* const keys[] = {"input", "output"};
  for (int side = 0; side < 2; ++side) {
    const std::string name = config.string(keys[side]);
    at[side] = table.find(name);
    if (at[side] < 0) config.fail(keys[side], "is no column of the table", Json(name).dump(), table.names_text());
  }
  for (int64_t row = 0; row < table.rows; ++row) {
    const std::string_view input = table.cell(row, at[0]), output = table.cell(row, at[1]);
    if (is_no_cell(input) || is_no_cell(output) || input.data() == nullptr || output.data() == nullptr)
      throw Error(ErrorKind::data, {.where = table.place(row), .what = "the row has not both texts"});
    pairs.list.push_back({table.place(row), input, output});
  }
}

void read_text_pairs_file(const Config& config, const std::string& folder, TextPairs& pairs) {
  const std::string path = pairs.where = path_in(folder, config.string("file"));
  std::string_view name = path;
  for (const std::string_view packed : {".gz", ".xz", ".zst"})
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  const bool json = name.ends_with(".json") || name.ends_with(".jsonl") || name.ends_with(".ndjson"), tabs = name.ends_with(".tsv");
  expect_there(path);
  if (!json && !tabs && !name.ends_with(".csv"))
    config.fail("file", "is of no kind that has rows of texts", Json(path).dump(), "a .csv, .tsv, .json or .jsonl, also .gz, .xz and .zst");
  auto content = std::make_shared<const FileContent>(FileContent::open(path, kMaxTextPairsBytes));
  const std::string_view text = as_text(content->bytes());
  const auto table = std::make_shared<const Table>(
      json ? json_table(json_records(text, path), path)
           : csv_table(text, content, path,
                       {.delimiter = tabs ? '\t' : ',', .expected = {config.string("input"), config.string("output")}}));
  pairs.owners = {std::move(content), table};
  add_rows(config, *table, pairs);
}

void read_lists(const Config& config, TextPairs& pairs) {
  auto inputs = std::make_shared<const std::vector<std::string>>(config.string_list("inputs"));
  auto outputs = std::make_shared<const std::vector<std::string>>(config.string_list("outputs"));
  if (inputs->size() != outputs->size())
    config.fail("outputs", "are not as many as 'inputs'", std::to_string(outputs->size()), std::to_string(inputs->size()));
  pairs.where = "text_pairs";
  for (size_t i = 0; i < inputs->size(); ++i)
    pairs.list.push_back({"text_pairs: pair " + std::to_string(i + 1), (*inputs)[i], (*outputs)[i]});
  pairs.owners = {std::move(inputs), std::move(outputs)};
}

TextPairs read_pairs(const Config& config, const std::string& folder) {
  TextPairs pairs;
  if (config.has("file") && (config.has("inputs") || config.has("outputs")))
    config.fail("file", "has the texts, and 'inputs' has others", config.raw("file")->dump(), "one of both");
  if (config.has("file")) {
    read_text_pairs_file(config, folder, pairs);
  } else if (config.has("inputs") && config.has("outputs")) {
    for (const char* key : {"input", "output"})
      if (config.has(key)) config.fail(key, "is a column of a file", config.raw(key)->dump(), "'file', or no '" + std::string(key) + "'");
    read_lists(config, pairs);
  } else {
    config.fail("file", "is missing", "", "a table with a column for each text, or the lists 'inputs' and 'outputs'");
  }
  if (pairs.list.empty()) throw Error(ErrorKind::data, {.where = pairs.where, .what = "there are no pairs of texts here"});
  return pairs;
}

// The numbers of one side's texts, one text after the other.
struct Side {
  std::optional<TextNumbers> numbers;
  std::vector<int32_t> ids;
  std::vector<int64_t> starts{0};
  int64_t length = 0;

  int64_t units(size_t i) const { return std::min(length, starts[i + 1] - starts[i]); }
  void add(std::string_view text, const std::string& place) {
    numbers->read(text, place, 0, false, [&](int64_t number) { ids.push_back(static_cast<int32_t>(number)); });
    starts.push_back(static_cast<int64_t>(ids.size()));
  }
  int64_t longest() const {
    int64_t longest = 0;
    for (size_t i = 0; i + 1 < starts.size(); ++i) longest = std::max(longest, starts[i + 1] - starts[i]);
    return longest;
  }
};

class TextPairSource : public DataSource {
 public:
  TextPairSource(const Config& config, const TextPairs& pairs, const std::string& folder) : name_(pairs.where) {
    make_vocabularies(config, pairs, folder);
    for (const TextPair& pair : pairs.list) {
      input_.add(pair.input, pair.place);
      if (input_.starts.back() == input_.starts[input_.starts.size() - 2])
        throw Error(ErrorKind::data, {.where = pair.place,
                                      .what = "there is nothing to read in this input",
                                      .got = Json(std::string(pair.input.substr(0, 80))).dump(),
                                      .expected = std::string("a ") + input_.numbers->unit()});
      output_.add(pair.output, pair.place);
    }
    const Config fitted = config.has("fitted") ? config.object("fitted") : config;
    input_.length = length_of(config, fitted, "length", input_.longest());
    output_.length = length_of(config, fitted, "output_length", output_.longest() + 1);
    std::vector<std::string> names = output_.numbers->names();
    names.emplace_back("<end>");
    fields_ = {{.name = "x", .dtype = Dtype::i64, .shape = {input_.length}},
               {.name = "n", .dtype = Dtype::i64, .shape = {}, .role = FieldRole::length, .of = "x"},
               {.name = "d", .dtype = Dtype::i64, .shape = {output_.length}},
               {.name = "y", .dtype = Dtype::i64, .shape = {output_.length}, .class_names = std::move(names)},
               {.name = "m", .dtype = Dtype::i64, .shape = {}, .role = FieldRole::length, .of = "y"}};
    fitted_ = Json(Json::Object{{"type", "text_pairs"},
                                {"input", input_.numbers->to_json()},
                                {"output", output_.numbers->to_json()},
                                {"length", input_.length},
                                {"output_length", output_.length}});
  }

  int64_t size() const override { return static_cast<int64_t>(input_.starts.size()) - 1; }
  const std::vector<Field>& fields() const override { return fields_; }
  SourceTraits traits() const override {
    return {.description = "text pairs " + name_ + " (" + std::to_string(size()) + " examples, vocabularies of " +
                           std::to_string(input_.numbers->size()) + " and " + std::to_string(output_.numbers->size()) + ")",
            .fitted = fitted_,
            .cheap = true,
            .fixed = true};
  }

  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    const auto index = static_cast<size_t>(key.index);
    int64_t* slot[5];
    for (size_t i = 0; i < 5; ++i) slot[i] = reinterpret_cast<int64_t*>(slots[i]);
    const int64_t read = input_.units(index), written = output_.units(index), edge = output_.numbers->size();
    std::copy_n(input_.ids.begin() + input_.starts[index], read, slot[0]);
    std::fill(slot[0] + read, slot[0] + input_.length, 0);
    *slot[1] = read;
    // The decoder reads a unit after it should have written it; what is cut has no end.
    const int32_t* units = output_.ids.data() + output_.starts[index];
    slot[2][0] = edge;
    std::copy_n(units, std::min(written, output_.length - 1), slot[2] + 1);
    std::fill(slot[2] + std::min(written + 1, output_.length), slot[2] + output_.length, edge);
    std::copy_n(units, written, slot[3]);
    std::fill(slot[3] + written, slot[3] + output_.length, edge);
    *slot[4] = std::min(written + 1, output_.length);
  }

 private:
  void make_vocabularies(const Config& config, const TextPairs& pairs, const std::string& folder) {
    if (config.has("fitted")) {
      input_.numbers.emplace(config.object("fitted").object("input"));
      output_.numbers.emplace(config.object("fitted").object("output"));
    } else if (config.has("tokenizer")) {
      for (const char* key : {"unit", "lowercase", "min_count", "max_vocabulary"})
        if (config.has(key))
          config.fail(key, "belongs to vocabularies that are learned", config.raw(key)->dump(), "a tokenizer has its own");
      const std::string path = path_in(folder, config.string("tokenizer"));
      const FileContent content = FileContent::open(path, Tokenizer::kMaxFile);
      input_.numbers.emplace(as_text(content.bytes()), path);
      output_.numbers.emplace(as_text(content.bytes()), path);
    } else {
      const VocabularyOptions wanted{.units = {.words = config.choice("unit") == "word", .lowercase = config.boolean("lowercase")},
                                     .min_count = config.integer("min_count"),
                                     .max_size = config.integer("max_vocabulary")};
      UnitCounts inputs, outputs;
      for (const TextPair& pair : pairs.list) {
        UnitReader reads(pair.input, wanted.units, pair.place), writes(pair.output, wanted.units, pair.place);
        inputs.add(reads);
        outputs.add(writes);
      }
      input_.numbers.emplace(Vocabulary(inputs, wanted));
      output_.numbers.emplace(Vocabulary(outputs, wanted));
    }
  }

  static int64_t length_of(const Config& config, const Config& fitted, const char* key, int64_t longest) {
    if (config.has(key)) return config.integer_in(key, 1, kMaxTextPairsLength);
    if (fitted.has(key)) return fitted.integer_in(key, 1, kMaxTextPairsLength);
    return std::clamp<int64_t>(longest, 1, kMaxTextPairsLength);
  }

  std::string name_;
  Side input_, output_;
  std::vector<Field> fields_;
  Json fitted_;
};

SourcePtr open_text_pairs(const Config& config, const std::string& folder) {
  return std::make_shared<TextPairSource>(config, read_pairs(config, folder), folder);
}

constexpr const char* kTextPairsPositional[] = {"file"};
constexpr Option kTextPairsOptions[] = {
    {"file", "file", "none", "a .csv, .tsv, .json or .jsonl with a column for each text; also .gz, .xz, .zst"},
    {"input", "name", "input", "column of the texts that are read"},
    {"output", "name", "output", "column of the texts that are written"},
    {"inputs", "list of names", "none", "in place of a file: the texts that are read"},
    {"outputs", "list of names", "none", "and what each of them becomes"},
    {"length", "integer", "the longest", "units of an input: longer ones are cut, shorter ones padded", {1, 1048576}},
    {"output_length", "integer", "the longest and 1", "units of an output with its end", {1, 1048576}},
    {"unit", "name", "char", "what is counted", {}, {"char", "word"}},
    {"tokenizer", "file", "none", "tokenizer.json of Hugging Face or .model of SentencePiece: its tokens are numbered, on both sides"},
    {"lowercase", "boolean", "false", "letters are made small"},
    {"min_count", "integer", "1", "rarer units are unknown", {1, 1099511627776}},
    {"max_vocabulary", "integer", "65536", "more are unknown", {2, 1048576}},
    {"fitted", "table", "none", "vocabularies and lengths of the training part"}};

}  // namespace

extern const SourceDef source_text_pairs;
const SourceDef source_text_pairs{
    .type = "text_pairs",
    .doc =
        "Texts and what each of them becomes, such as a translation: rows of a table 'file' with columns 'input' and 'output', or the "
        "lists "
        "'inputs' and 'outputs'. The network reads x (an input, n units long) and d (the output so far), and foretells y (the output and "
        "its "
        "end, m units long). Options: length, output_length, unit ('char' or 'word'), tokenizer, lowercase (false), min_count (1), "
        "max_vocabulary (65536)",
    .schema = {.options = kTextPairsOptions, .positional = kTextPairsPositional},
    .open = open_text_pairs};

}  // namespace perigee
