// {"type": "documents", "file": "reviews", "features": "tfidf"}: texts with labels. They lie in a folder for each class, on the disk or in a tar
// archive, or in the rows of a table. An example is the weights of a document's terms, or the numbers of its units, cut and padded to 'length'.
// Vocabulary and weights are fitted on the training part and are fitted().
#include "src/data/documents.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "src/data/table.h"
#include "src/io/archive/tar.h"
#include "src/io/codec/compress.h"
#include "src/io/codec/encoding.h"
#include "src/io/confined.h"
#include "src/text/sentences.h"
#include "src/text/term_bag.h"

namespace perigee {
namespace {

constexpr uint64_t kMaxDocumentsBytes = uint64_t{1} << 33;
constexpr size_t kMaxDocuments = size_t{1} << 27;
constexpr int64_t kMaxDocumentsLength = 1 << 20;
constexpr const char* kDocumentsNames[] = {"ids", "count", "binary", "tfidf"};

struct Document {
  std::string place;  // "reviews/neg/cv000.txt", "reviews.csv:7"
  std::string_view text;
  std::string label;
};

struct Documents {
  std::string where;
  std::vector<Document> list;  // sorted by place within each class
  bool labelled = true;
  std::vector<std::shared_ptr<const void>> owners;

  std::string encoding = {};

  void hold(FileContent content) { owners.push_back(std::make_shared<const FileContent>(std::move(content))); }
  // `bytes` in UTF-8, which live as long as this does.
  std::string_view text_of(std::string_view bytes, const std::string& place) {
    DecodedText decoded = decoded_text(bytes, encoding, place);
    if (decoded.owner) owners.push_back(std::move(decoded.owner));
    return decoded.text.substr(decoded.text.starts_with("\xef\xbb\xbf") ? 3 : 0);
  }
};

bool is_text_name(std::string_view name) { return name.ends_with(".txt") || name.ends_with(".text"); }

void read_folder(const std::string& folder, Documents& documents) {
  uint64_t bytes = 0;
  for (const FolderEntry& of_class : list_folder(folder)) {
    if (!of_class.folder || of_class.name.starts_with('.')) continue;
    for (const FolderEntry& entry : list_folder(folder + "/" + of_class.name)) {
      if (!entry.file || !is_text_name(entry.name)) continue;
      const std::string path = folder + "/" + of_class.name + "/" + entry.name;
      FileContent content = FileContent::open(path, kMaxDocumentsBytes - bytes);
      bytes += content.bytes().size();
      documents.list.push_back({path, documents.text_of(as_text(content.bytes()), path), of_class.name});
      documents.hold(std::move(content));
    }
  }
}

// Archives have no order: their names are sorted, and the folder around a text is its class.
void read_archive(const std::string& path, Documents& documents) {
  FileContent content = FileContent::open(path, kMaxDocumentsBytes);
  for (const TarEntry& entry : tar_entries(content.bytes(), path)) {
    const size_t slash = entry.name.rfind('/');
    if (slash == std::string::npos || slash == 0 || !is_text_name(entry.name)) continue;
    const size_t before = entry.name.rfind('/', slash - 1);
    const size_t begin = before == std::string::npos ? 0 : before + 1;
    const std::string place = path + ": " + entry.name;
    documents.list.push_back({place, documents.text_of(as_text(entry.content), place), entry.name.substr(begin, slash - begin)});
  }
  documents.hold(std::move(content));
  std::sort(documents.list.begin(), documents.list.end(), [](const Document& a, const Document& b) { return a.place < b.place; });
}

void read_documents_table(const Config& config, const std::string& path, bool json, Documents& documents) {
  FileContent content = FileContent::open(path, kMaxDocumentsBytes);
  const std::string_view text = documents.text_of(as_text(content.bytes()), path);
  const std::string columns[] = {config.string("text"), config.string("label")};
  Json records;
  if (json) records = json_records(text, path);
  const auto table = std::make_shared<const Table>(
      json ? json_table(records, path)
           : csv_table(text, nullptr, path,
                       {.delimiter = path.find(".tsv") != path.npos ? '\t' : ',', .expected = {columns[0], columns[1]}}));
  documents.hold(std::move(content));
  documents.owners.push_back(table);
  const int64_t at = table->find(columns[0]), label = table->find(columns[1]);
  if (at < 0) config.fail("text", "is no column of the table", Json(columns[0]).dump(), table->names_text());
  if (label < 0 && config.has("label")) config.fail("label", "is no column of the table", Json(columns[1]).dump(), table->names_text());
  documents.labelled = label >= 0;
  for (int64_t row = 0; row < table->rows; ++row) {
    const std::string_view cell = table->cell(row, at), named = label < 0 ? std::string_view() : table->cell(row, label);
    if (is_no_cell(cell) || (label >= 0 && (named.data() == nullptr || named.empty() || is_no_cell(named))))
      throw Error(ErrorKind::data, {.where = table->place(row), .what = "the row has no text or no label"});
    documents.list.push_back({table->place(row), cell, std::string(named)});
  }
}

Documents read_documents(const Config& config, const std::string& folder) {
  Documents documents;
  const std::string path = path_in(folder, config.string("file"));
  documents.where = path;
  documents.encoding = config.string("encoding", "");
  std::string_view name = path;
  for (const std::string_view packed : {".gz", ".xz", ".zst"})
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  const bool json = name.ends_with(".json") || name.ends_with(".jsonl") || name.ends_with(".ndjson");
  if (folder_exists(path)) read_folder(path, documents);
  else if (json || name.ends_with(".csv") || name.ends_with(".tsv")) read_documents_table(config, path, json, documents);
  else if (name.ends_with(".tar") || name.ends_with(".tgz")) read_archive(path, documents);
  else {
    expect_there(path);
    config.fail("file", "is of no kind that can be read", Json(path).dump(),
                "a folder, or a .tar, .csv, .tsv, .json or .jsonl, also .gz, .xz and .zst");
  }
  if (documents.list.empty() || documents.list.size() > kMaxDocuments)
    throw Error(ErrorKind::data,
                {.where = path, .what = "there are no documents here", .expected = "a folder of .txt files per class, or a table"});
  return documents;
}

// In each class the fold-th of so many equal parts is the test part, in the order of the places; the rest is for training.
void choose_part(const Config& config, Documents& documents, bool training) {
  const int64_t folds = config.integer("folds"), fold = config.integer("fold");
  if (folds < 2) return;
  if (fold > folds) config.fail("fold", "is out of range", std::to_string(fold), "1 to " + std::to_string(folds));
  std::unordered_map<std::string, int64_t> sizes, seen;
  for (const Document& document : documents.list) ++sizes[document.label];
  std::erase_if(documents.list, [&](const Document& document) {
    const bool test = seen[document.label]++ * folds / sizes[document.label] == fold - 1;
    return test == training;
  });
  if (documents.list.empty()) config.fail("folds", "leaves no documents", std::to_string(folds), "fewer");
}

// A document for each sentence, with the label of the whole.
void split_sentences(Documents& documents) {
  std::vector<Document> parts;
  for (const Document& document : documents.list)
    for (const std::string_view sentence : sentences_of(document.text)) parts.push_back({document.place, sentence, document.label});
  if (parts.empty()) throw Error(ErrorKind::data, {.where = documents.where, .what = "the documents have no sentence"});
  documents.list = std::move(parts);
}

bool by_sentences(const Config& config) {
  const Config options = config.has("fitted") ? config.object("fitted") : config;
  return options.boolean("sentences", false);
}

class DocumentSource : public DataSource {
 public:
  DocumentSource(const Config& config, const Documents& documents, const std::string& folder) : name_(documents.where) {
    const bool given = config.has("fitted");
    const Config options = given ? config.object("fitted") : config;
    const std::string features = options.choice("features", "ids", {std::begin(kDocumentsNames), std::end(kDocumentsNames)});
    if (features == "ids") {
      numbers(config, options, given, documents, folder);
    } else {
      if (given) bag_.emplace(options);
      else fit_bag(config, features, documents);
      fields_.push_back({.name = "x", .dtype = Dtype::f32, .shape = {bag_->size()}});
      for (const Document& document : documents.list) rows_.push_back(bag_->row(document.text, document.place));
      fitted_ = bag_->to_json();
    }
    fitted_.set("type", "documents");
    if (by_sentences(config)) fitted_.set("sentences", true);
    label(config, given ? options.string_list("classes") : config.string_list("classes"), documents);
  }

  int64_t size() const override { return static_cast<int64_t>(bag_ ? rows_.size() : starts_.size() - 1); }
  const std::vector<Field>& fields() const override { return fields_; }
  SourceTraits traits() const override {
    return {.description = "documents " + name_ + " (" + std::to_string(size()) + " examples, vocabulary of " +
                           std::to_string(bag_ ? bag_->size() : vocabulary_) + ")",
            .fitted = fitted_,
            .fixed = true};
  }

  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    const auto index = static_cast<size_t>(key.index);
    size_t slot = 1;
    if (bag_) {
      auto* x = reinterpret_cast<float*>(slots[0]);
      std::fill_n(x, bag_->size(), 0.f);
      const TermRow& row = rows_[index];
      for (size_t i = 0; i < row.places.size(); ++i) x[row.places[i]] = row.values[i];
    } else {
      auto* x = reinterpret_cast<int64_t*>(slots[0]);
      const int64_t count = starts_[index + 1] - starts_[index];
      std::copy_n(ids_.begin() + starts_[index], count, x);
      std::fill(x + count, x + length_, 0);
      *reinterpret_cast<int64_t*>(slots[slot++]) = count;
    }
    if (!labels_.empty()) *reinterpret_cast<int64_t*>(slots[slot]) = labels_[index];
  }

 private:
  void numbers(const Config& config, const Config& options, bool given, const Documents& documents, const std::string& folder) {
    for (const char* key : {"ngrams", "stop_words", "stem", "sublinear"})
      if (config.has(key)) config.fail(key, "belongs to features that count terms", config.raw(key)->dump(), "features = \"tfidf\"");
    std::optional<TextNumbers> vocabulary;
    if (given) vocabulary.emplace(options);
    else if (config.has("tokenizer")) {
      const std::string path = path_in(folder, config.string("tokenizer"));
      vocabulary.emplace(as_text(FileContent::open(path, Tokenizer::kMaxFile).bytes()), path);
    } else {
      const VocabularyOptions wanted{.units = {.words = config.choice("unit") == "word", .lowercase = config.boolean("lowercase")},
                                     .min_count = config.integer("min_count"),
                                     .max_size = config.integer("max_vocabulary")};
      UnitCounts counts;
      for (const Document& document : documents.list) {
        UnitReader reader(document.text, wanted.units, document.place);
        counts.add(reader);
      }
      vocabulary.emplace(Vocabulary(counts, wanted));
    }
    vocabulary_ = vocabulary->size();
    if (!given && !config.has("length")) config.fail("length", "is missing", "", "how many units of each document are read");
    length_ = (config.has("length") ? config : options).integer_in("length", 1, kMaxDocumentsLength);
    for (const Document& document : documents.list) {
      const size_t start = ids_.size(), most = start + static_cast<size_t>(length_);
      vocabulary->read(document.text, document.place, 0, false, [&](int64_t number) {
        if (ids_.size() < most) ids_.push_back(static_cast<int32_t>(number));
      });
      if (ids_.size() == start) ids_.push_back(0);  // a document without a unit has one that stands for nothing
      starts_.push_back(static_cast<int64_t>(ids_.size()));
    }
    fields_.push_back({.name = "x", .dtype = Dtype::i64, .shape = {length_}});
    fields_.push_back({.name = "n", .dtype = Dtype::i64, .shape = {}, .role = FieldRole::length, .of = "x"});
    fitted_ = vocabulary->to_json();
    fitted_.set("features", "ids");
    fitted_.set("length", length_);
  }

  void fit_bag(const Config& config, const std::string& features, const Documents& documents) {
    for (const char* key : {"length", "tokenizer"})
      if (config.has(key)) config.fail(key, "belongs to features of ids", config.raw(key)->dump(), "features = \"ids\"");
    const auto weight = static_cast<TermWeight>(std::find(std::begin(kDocumentsNames), std::end(kDocumentsNames), features) -
                                                std::begin(kDocumentsNames) - 1);
    bag_.emplace(TermOptions{.units = {.words = config.choice("unit") == "word", .lowercase = config.boolean("lowercase")},
                             .ngrams = config.integer("ngrams"),
                             .stop_words = config.string_list("stop_words"),
                             .stem = Stemmer::language(config),
                             .weight = weight,
                             .sublinear = config.boolean("sublinear"),
                             .min_count = config.integer("min_count"),
                             .max_size = config.integer("max_vocabulary")});
    bag_->fit(
        documents.list.size(), [&](size_t i) { return documents.list[i].text; }, [&](size_t i) { return documents.list[i].place; });
  }

  void label(const Config& config, std::vector<std::string> classes, const Documents& documents) {
    if (!documents.labelled) return fitted_.set("classes", names_json(classes)), void();
    if (classes.empty()) {
      for (const Document& document : documents.list) classes.push_back(document.label);
      std::sort(classes.begin(), classes.end());
      classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    }
    const auto count = static_cast<int64_t>(classes.size());
    if (count > 1 << 16) config.fail("label", "has too many classes", std::to_string(count), "at most 65536");
    std::unordered_map<std::string_view, int64_t> numbers;
    for (int64_t c = 0; c < count; ++c) numbers.emplace(classes[static_cast<size_t>(c)], c);
    for (const Document& document : documents.list) {
      const auto found = numbers.find(document.label);
      if (found == numbers.end())
        throw Error(ErrorKind::data, {.where = document.place,
                                      .what = "this label is none of the classes",
                                      .got = Json(document.label.substr(0, 80)).dump(),
                                      .hint = nearest_hint(document.label, classes)});
      labels_.push_back(found->second);
    }
    fitted_.set("classes", names_json(classes));
    fields_.push_back({.name = "y", .dtype = Dtype::i64, .shape = {}, .classes = count, .class_names = std::move(classes)});
  }

  static Json names_json(const std::vector<std::string>& names) {
    Json list = Json::array();
    for (const std::string& name : names) list.push(name);
    return list;
  }

  std::string name_;
  std::vector<Field> fields_;
  std::vector<int64_t> labels_;
  Json fitted_;
  std::optional<TermBag> bag_;
  std::vector<TermRow> rows_;
  std::vector<int32_t> ids_;
  std::vector<int64_t> starts_{0};
  int64_t length_ = 0, vocabulary_ = 0;
};

SourcePtr open_documents(const Config& config, const std::string& folder) {
  Documents documents = read_documents(config, folder);
  choose_part(config, documents, config.choice("part") == "train");
  if (by_sentences(config)) split_sentences(documents);
  return std::make_shared<DocumentSource>(config, documents, folder);
}

constexpr const char* kDocumentsPositional[] = {"file"};
constexpr Option kDocumentsOptions[] = {
    {"file", "file", nullptr,
     "a folder with one folder of .txt files per class, the same as .tar, or a .csv, .tsv, .json or .jsonl; also .gz, .xz, .zst"},
    {"text", "name", "text", "column of the table"},
    {"label", "name", "label", "column of the table"},
    {"encoding", "name", kEncodingFallback, kEncodingDoc},
    {"classes", "list of names", "all labels, sorted", "in the order of their numbers"},
    {"features", "name", "ids", "numbers of units, or weights of terms", {}, {"ids", "count", "binary", "tfidf"}},
    {"length", "integer", "required with ids", "units of each document: longer ones are cut, shorter ones padded", {1, 1048576}},
    {"unit", "name", "word", "what is counted", {}, {"char", "word"}},
    {"tokenizer", "file", "none", "with ids: tokenizer.json of Hugging Face or .model of SentencePiece; its tokens are numbered"},
    {"sentences", "boolean", "false", "each sentence of a document is an example, with its label"},
    {"lowercase", "boolean", "true", "letters are made small"},
    {"ngrams", "integer", "1", "terms of so many units in a row, and fewer", {1, 8}},
    {"stop_words", "list of names", "none", "units that are left out of terms"},
    {"stem", "name", "none", "a language of Snowball (\"english\"): words of terms are cut to their stems, and those alike are one"},
    {"sublinear", "boolean", "false", "1 + ln(count) in place of the count"},
    {"min_count", "integer", "1", "a term comes in so many documents, a unit so many times", {1, 1099511627776}},
    {"max_vocabulary", "integer", "65536", "the most frequent ones", {2, 1048576}},
    {"folds",
     "integer",
     "0",
     "the documents of each class are cut in so many parts, one of which is the test part; 0: all are one part",
     {0, 1000000}},
    {"fold", "integer", "1", "which of them, from 1 on", {1, 1000000}},
    {"part", "name", "train", "of the folds", {}, {"train", "test"}},
    {"fitted", "table", "none", "vocabulary and weights of the training part"}};

}  // namespace

SourcePtr document_source(const Config& config, std::string_view text, const std::string& where) {
  Documents documents{.where = where, .list = {{where, text, ""}}, .labelled = false};
  if (by_sentences(config)) split_sentences(documents);
  return std::make_shared<DocumentSource>(config, documents, "");
}

extern const SourceDef source_documents;
const SourceDef source_documents{
    .type = "documents",
    .doc =
        "Texts with labels: a folder of .txt files per class (or an archive of it), or a table 'file' with columns 'text' and 'label'. "
        "Options: "
        "features ('ids' of units, cut and padded to 'length'; 'count', 'binary' or 'tfidf' of terms), unit ('word' or 'char'), tokenizer, "
        "sentences (false), lowercase (true), ngrams (1), stop_words, stem (a language), sublinear (false), min_count (1), max_vocabulary "
        "(65536), encoding, folds and "
        "fold with part "
        "('train' "
        "or 'test'), classes",
    .schema = {.options = kDocumentsOptions, .positional = kDocumentsPositional},
    .open = open_documents};

}  // namespace perigee
