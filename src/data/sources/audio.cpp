// {"type": "audio", "folder": "commands"}: a folder of recordings for each class, or a tar archive of them. `label` finds the class in names such
// as 7_jackson_32.wav, `files` takes some of the files. Classes and files are sorted. Files of no class have no labels. A `table` gives classes, or
// texts of what is said.
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "src/data/records/encoded.h"
#include "src/data/sound/decoder.h"
#include "src/data/sound/rated.h"
#include "src/data/sound/sound_source.h"
#include "src/data/sound/transcripts.h"
#include "src/io/archive/tar.h"
#include "src/io/codec/compress.h"
#include "src/io/confined.h"
#include "src/io/csv.h"
#include "src/io/sound/sound.h"

namespace perigee {
namespace {

constexpr uint64_t kMaxAudioFileBytes = uint64_t{1} << 30, kMaxArchiveBytes = uint64_t{1} << 36;
constexpr size_t kMaxAudioFiles = size_t{1} << 26;
constexpr int64_t kMaxNumbers = int64_t{1} << 24;
constexpr int kMaxDepth = 8;

struct AudioFile {
  std::string name;  // from the folder on
  std::string path;  // for messages too
  std::string label;
  std::string text;                       // what is said, of a table with texts
  std::string place;                      // of the text in its table
  std::span<const std::byte> bytes = {};  // of an archive's entry
  int64_t number = 0;                     // of the class
};

struct Files {
  std::string place;
  std::vector<AudioFile> files;
  std::shared_ptr<const FileContent> archive;
  bool in_memory = false;
  bool with_texts = false;
  Bytes own;  // of a single recording

  // In `memory`, unless it lies in an archive.
  std::span<const std::byte> content(const AudioFile& file, Bytes& memory) const {
    if (in_memory) return file.bytes;
    read_file(file.path, kMaxAudioFileBytes, memory);
    return memory;
  }
};

struct Form {
  int64_t rate = 0, channels = 1, steps = 0;
  bool lengths = true;
  std::vector<std::string> classes;
};

int64_t steps_at(const SoundInfo& info, int64_t rate) { return (info.frames * rate + info.rate - 1) / info.rate; }

class AudioSource : public DataSource, public RatedSource, public EncodedSource {
 public:
  AudioSource(Files files, Form form, std::optional<Transcripts> transcripts = {})
      : files_(std::move(files)), form_(std::move(form)), transcripts_(std::move(transcripts)) {
    fields_.push_back({.name = "x", .dtype = Dtype::f32, .shape = {form_.channels, form_.steps}});
    if (form_.lengths) fields_.push_back({.name = "n", .dtype = Dtype::i64, .shape = {}, .role = FieldRole::length, .of = "x"});
    if (const auto count = static_cast<int64_t>(form_.classes.size()); count > 0)
      fields_.push_back({.name = "y", .dtype = Dtype::i64, .shape = {}, .classes = count, .class_names = form_.classes});
    if (transcripts_) fields_.push_back(transcripts_->field());
  }
  int64_t size() const override { return static_cast<int64_t>(files_.files.size()); }
  double rate() const override { return static_cast<double>(form_.rate); }
  const std::vector<Field>& fields() const override { return fields_; }
  SourceTraits traits() const override {
    Json classes = Json::array();
    for (const auto& name : form_.classes) classes.push(name);
    Json fitted(Json::Object{{"type", "audio"}, {"rate", form_.rate}, {"steps", form_.steps}, {"classes", std::move(classes)}});
    if (transcripts_) fitted.set("transcripts", transcripts_->fitted());
    return {
        .description = "audio (" + std::to_string(size()) + " examples, " + files_.place + ")", .fitted = std::move(fitted), .fixed = true};
  }

  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    thread_local Bytes memory;
    const AudioFile& file = files_.files[static_cast<size_t>(key.index)];
    decode(key.index, files_.content(file, memory), reinterpret_cast<float*>(slots[0]), slots);
  }

  // The length of a recording is known once it is decoded.
  void encoded(int64_t index, Bytes& bytes, std::span<std::byte* const> slots) const override {
    thread_local Bytes memory;
    thread_local std::vector<float> decoded;
    const AudioFile& file = files_.files[static_cast<size_t>(index)];
    const auto content = files_.content(file, memory);
    bytes.assign(content.begin(), content.end());
    decoded.resize(static_cast<size_t>(form_.channels * form_.steps));
    decode(index, content, decoded.data(), slots);
  }

 private:
  // Into `to`, and what is known beside it into the slots from the second on.
  void decode(int64_t index, std::span<const std::byte> bytes, float* to, std::span<std::byte* const> slots) const {
    const AudioFile& file = files_.files[static_cast<size_t>(index)];
    const SoundDecoder decoder{.rate = form_.rate, .channels = form_.channels, .steps = form_.steps};
    const int64_t steps = decoder.decode(bytes, file.path, to);
    size_t slot = 1;
    if (form_.lengths) std::memcpy(slots[slot++], &steps, sizeof steps);
    if (!form_.classes.empty()) std::memcpy(slots[slot], &file.number, sizeof file.number);
    if (transcripts_) transcripts_->read(index, reinterpret_cast<int64_t*>(slots[slot]));
  }

  Files files_;
  Form form_;
  std::optional<Transcripts> transcripts_;
  std::vector<Field> fields_;
};

// --- Which files, which classes ------------------------------------------------------------------------------------------------

bool matches(const std::string& pattern, const std::string& name) { return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0; }

std::string_view suffix_of(std::string_view name) {
  const size_t dot = name.rfind('.');
  return dot == name.npos ? std::string_view() : name.substr(dot + 1);
}

std::string_view base_of(std::string_view name) { return name.substr(name.rfind('/') + 1); }

// The shortest text that can stand for {class} in the pattern, its beginning as far to the left as can be; empty when there is none.
std::string class_in(const std::string& pattern, const std::string& name) {
  static constexpr std::string_view kMark = "{class}";
  const size_t mark = pattern.find(kMark);
  const std::string before = pattern.substr(0, mark), after = pattern.substr(mark + kMark.size());
  for (size_t begin = 0; begin < name.size(); ++begin) {
    if (!matches(before, name.substr(0, begin))) continue;
    for (size_t end = begin + 1; end <= name.size(); ++end)
      if (matches(after, name.substr(end))) return name.substr(begin, end - begin);
  }
  return "";
}

void find_files(const std::string& root, const std::string& below, int depth, std::vector<AudioFile>* files) {
  for (const FolderEntry& entry : list_folder(below.empty() ? root : root + "/" + below)) {
    if (entry.name.starts_with('.')) continue;
    const std::string name = below.empty() ? entry.name : below + "/" + entry.name;
    if (entry.folder && depth < kMaxDepth) find_files(root, name, depth + 1, files);
    else if (entry.file && files->size() < kMaxAudioFiles) files->push_back({.name = name});
  }
}

// A table with the columns path and label or text.
std::vector<AudioFile> read_audio_table(const std::string& path, bool* with_texts) {
  const FileContent content = FileContent::open(path, kMaxAudioFileBytes);
  const CsvTable table = parse_csv(as_text(content.bytes()), path, ',', true);
  const auto column = [&](const char* name) { return std::find(table.header.begin(), table.header.end(), name) - table.header.begin(); };
  const auto paths = column("path"), labels = column("label"), texts = column("text");
  const auto expected = "path, label where there are classes, or text where something is said";
  if (paths == table.columns) throw Error(ErrorKind::data, {.where = path, .what = "the table has no column 'path'", .expected = expected});
  *with_texts = texts < table.columns;
  if (*with_texts && labels < table.columns)
    throw Error(ErrorKind::data,
                {.where = path, .what = "the table has classes and texts", .expected = "one of the columns label and text"});
  std::vector<AudioFile> files;
  for (int64_t row = 0; row < table.rows; ++row) {
    files.push_back({.name = std::string(table.cell(row, paths))});
    if (labels < table.columns) files.back().label = table.cell(row, labels);
    if (*with_texts)
      files.back().text = table.cell(row, texts), files.back().place = path + ":" + std::to_string(table.lines[static_cast<size_t>(row)]);
  }
  return files;
}

// The recordings of the table alone, with the table's order of names.
void keep_those_of_table(const std::string& path, Files* found) {
  std::vector<AudioFile> listed = read_audio_table(path, &found->with_texts);
  std::map<std::string_view, std::span<const std::byte>> entries;
  for (const AudioFile& file : found->files) entries[file.name] = file.bytes;
  for (size_t row = 0; found->in_memory && row < listed.size(); ++row) {
    const auto entry = entries.find(listed[row].name);
    if (entry == entries.end())
      throw Error(ErrorKind::data, {.where = path,
                                    .what = "the archive has no such recording",
                                    .got = Json(listed[row].name).dump(),
                                    .expected = "a name in " + found->place});
    listed[row].bytes = entry->second;
  }
  found->files = std::move(listed);
}

Files files_of(const Config& config, const std::string& base) {
  Files found;
  found.place = path_in(base, config.string("folder"));
  expect_there(found.place);
  if (!folder_exists(found.place)) {
    found.archive = std::make_shared<FileContent>(FileContent::open(found.place, kMaxArchiveBytes));
    found.in_memory = true;
    for (TarEntry& entry : tar_entries(found.archive->bytes(), found.place))
      found.files.push_back({.name = std::move(entry.name), .bytes = entry.content});
  } else if (!config.has("table")) {
    find_files(found.place, "", 0, &found.files);
  }
  if (config.has("table")) keep_those_of_table(path_in(base, config.string("table")), &found);
  const std::vector<std::string> wanted = config.string_list("files");
  std::erase_if(found.files, [&](const AudioFile& file) {
    const auto fits = [&](const std::string& pattern) {
      return matches(pattern, pattern.find('/') == std::string::npos ? std::string(base_of(file.name)) : file.name);
    };
    return !is_sound_suffix(suffix_of(file.name)) || (!wanted.empty() && std::none_of(wanted.begin(), wanted.end(), fits));
  });
  for (AudioFile& file : found.files) file.path = found.place + (found.in_memory ? ": " : "/") + file.name;
  std::sort(found.files.begin(), found.files.end(), [](const AudioFile& a, const AudioFile& b) { return a.name < b.name; });
  if (found.files.empty())
    throw Error(ErrorKind::data,
                {.where = found.place,
                 .what = wanted.empty() ? "there are no recordings here" : "no recording has a name that 'files' describes",
                 .expected = std::string("files with these ends: ") + kSoundSuffixes});
  return found;
}

void find_labels(const Config& config, Files* found) {
  const std::string pattern = config.string("label", "");
  if (!pattern.empty() && pattern.find("{class}") == std::string::npos)
    config.fail("label", "does not say where the class stands", "'" + pattern + "'", "a pattern such as \"{class}_*\"");
  for (AudioFile& file : found->files) {
    if (!file.label.empty()) continue;
    const std::string base(base_of(file.name));
    if (pattern.empty()) {
      if (base.size() < file.name.size()) file.label = base_of(file.name.substr(0, file.name.size() - base.size() - 1));
      continue;
    }
    file.label = class_in(pattern, pattern.find('/') == std::string::npos ? base : file.name);
    if (file.label.empty())
      throw Error(ErrorKind::data, {.where = file.path, .what = "the name does not fit 'label'", .expected = pattern});
  }
}

// A list of the classes keeps their numbers when another part of the data lacks one.
std::vector<std::string> number_classes(std::vector<std::string> given, Files* found) {
  if (given.empty()) {
    std::set<std::string> labels;
    for (const AudioFile& file : found->files) labels.insert(file.label);
    if (labels == std::set<std::string>{""}) return {};
    given.assign(labels.begin(), labels.end());
  }
  for (AudioFile& file : found->files) {
    const auto at = std::find(given.begin(), given.end(), file.label);
    if (at == given.end())
      throw Error(
          ErrorKind::data,
          {.where = file.path, .what = "the class '" + file.label + "' is none of the classes", .hint = nearest_hint(file.label, given)});
    file.number = at - given.begin();
  }
  return given;
}

// The rate of the first recording and the length of the longest, where options and training part say nothing.
Form form_of(const Config& config, const Files& found) {
  Form form{.channels = config.integer("channels"), .lengths = config.boolean("lengths")};
  const double seconds = config.number("seconds", 0);
  form.rate = config.integer("rate", 0);
  if (config.has("fitted")) {
    const Config fitted = config.object("fitted");
    if (form.rate == 0) form.rate = fitted.integer_in("rate", 1, 1000000);
    if (seconds == 0) form.steps = fitted.integer_in("steps", 1, kMaxNumbers);
  }
  Bytes memory;
  for (const AudioFile& file : found.files) {
    if (form.rate > 0 && (form.steps > 0 || seconds > 0) && &file == found.files.data()) break;
    const SoundInfo info = sound_info(found.content(file, memory), file.path);
    if (form.rate == 0) form.rate = info.rate;
    if (seconds > 0) break;
    form.steps = std::max(form.steps, steps_at(info, form.rate));
  }
  const double wanted = seconds > 0 ? seconds * static_cast<double>(form.rate) : static_cast<double>(form.steps);
  if (wanted < 1 || wanted * static_cast<double>(form.channels) > static_cast<double>(kMaxNumbers))
    throw Error(ErrorKind::data, {.where = found.place,
                                  .what = "an example would have " + std::to_string(static_cast<int64_t>(wanted)) + " steps",
                                  .expected = "1 to " + std::to_string(kMaxNumbers / form.channels),
                                  .hint = "seconds = 10 cuts recordings"});
  form.steps = std::llround(wanted);
  return form;
}

SourcePtr open_transcribed(const Config& config, Files found) {
  for (const char* key : {"label", "classes"})
    if (config.has(key)) config.fail(key, "belongs to classes, and the table has texts", config.raw(key)->dump(), "one of both");
  std::vector<Transcript> texts;
  for (const AudioFile& file : found.files) texts.push_back({file.text, file.place});
  std::optional<Config> known;
  if (config.has("fitted")) known = config.object("fitted").object("transcripts");
  Transcripts transcripts(config, known ? &*known : nullptr, texts);
  Form form = form_of(config, found);
  return std::make_shared<AudioSource>(std::move(found), std::move(form), std::move(transcripts));
}

SourcePtr open_audio(const Config& config, const std::string& base) {
  Files found = files_of(config, base);
  if (found.with_texts) return open_transcribed(config, std::move(found));
  for (const char* key : {"unit", "lowercase", "labels"})
    if (config.has(key)) config.fail(key, "belongs to texts", config.raw(key)->dump(), "a table with the columns path and text");
  find_labels(config, &found);
  std::vector<std::string> classes = config.string_list("classes");
  if (classes.empty() && config.has("fitted")) classes = config.object("fitted").string_list("classes");
  classes = number_classes(std::move(classes), &found);
  Form form = form_of(config, found);
  form.classes = std::move(classes);
  return std::make_shared<AudioSource>(std::move(found), std::move(form));
}

constexpr const char* kAudioPositional[] = {"folder"};
constexpr Option kAudioOptions[] = {
    {"folder", "file", nullptr, "with a folder for each class; or a tar archive (.tar, .tar.gz, .tar.xz) of it"},
    {"files", "list of names", "all", "patterns of files to take, such as \"*_[0-4].wav\""},
    {"label", "string", "the folders' names", "where the class stands in a name, such as \"{class}_*.wav\""},
    {"table", "file", "none", "CSV with the columns path, from the folder on, and label; or text: what is said, for the loss ctc"},
    {"unit", "name", "char", "of texts: what is a label", {}, {"char", "word"}},
    {"lowercase", "boolean", "false", "of texts: letters are made small"},
    {"labels", "integer", "the longest text", "of texts: labels of an example, padded with -1", {1, 65536}},
    {"rate", "integer", "that of the first recording", "steps a second; others are resampled", {1, 1000000}},
    {"channels", "integer", "1", "1: mixed; else as many as the recordings have", {1, 64}},
    {"seconds", "number", "the longest recording", "length of an example; shorter ones end with zeros, longer ones are cut", {1e-4, 1e5}},
    {"lengths", "boolean", "true", "field n: how many steps are there"},
    {"classes", "list of names", "those that are found", "in the order of their numbers"},
    {"fitted", "table", "none", "rate, steps and classes or vocabulary, where they are known"}};

}  // namespace

SourcePtr sound_source(const Config& config, std::span<const std::byte> bytes, const std::string& name) {
  Files one{.place = name, .files = {{.path = name}}, .in_memory = true, .own = Bytes(bytes.begin(), bytes.end())};
  one.files[0].bytes = one.own;  // stays where it is when it is moved
  sound_info(bytes, name);
  Form form = form_of(config, one);
  return std::make_shared<AudioSource>(std::move(one), std::move(form));
}

extern const SourceDef source_audio;
const SourceDef source_audio{
    .type = "audio",
    .doc =
        "Recordings in a folder per class, or in a tar archive: WAV, FLAC, Ogg, MP3 and others. Options: folder, files, "
        "label, table (of classes or of what is said, for ctc), unit ('char' or 'word'), lowercase, labels, rate, channels (1), seconds, "
        "lengths "
        "(true), classes",
    .schema = {.options = kAudioOptions, .positional = kAudioPositional},
    .open = open_audio};

}  // namespace perigee
