#include "src/data/sound/transcripts.h"

#include <algorithm>

namespace perigee {
namespace {

constexpr int64_t kMaxRoom = 1 << 16;

// The number of what has no number of its own is the blank's: no text has it.
Vocabulary vocabulary_of(const Config& config, const Config* known, std::span<const Transcript> texts) {
  if (known) return Vocabulary(known->object("vocabulary"));
  const VocabularyOptions wanted{.units = {.words = config.choice("unit") == "word", .lowercase = config.boolean("lowercase")},
                                 .max_size = Vocabulary::kMaxSize};
  UnitCounts counts;
  for (const Transcript& text : texts) {
    UnitReader reader(text.text, wanted.units, text.place);
    counts.add(reader);
  }
  return Vocabulary(counts, wanted);
}

}  // namespace

Transcripts::Transcripts(const Config& config, const Config* known, std::span<const Transcript> texts)
    : vocabulary_(vocabulary_of(config, known, texts)) {
  size_t longest = 0;
  for (const Transcript& text : texts) {
    UnitReader reader(text.text, vocabulary_.units(), text.place);
    while (reader.next()) {
      const int64_t number = vocabulary_.number(reader.unit());
      if (number <= 0)
        throw Error(ErrorKind::data, {.where = reader.place(),
                                      .what = "no transcript of the training part has this",
                                      .got = Json(std::string(reader.unit())).dump(),
                                      .hint = "take a training part that has it, or leave the recording out"});
      labels_.push_back(number);
    }
    longest = std::max(longest, labels_.size() - starts_.back());
    starts_.push_back(labels_.size());
  }
  if (config.has("labels")) room_ = config.integer("labels");
  else if (known) room_ = known->integer_in("labels", 1, kMaxRoom);
  else room_ = std::clamp<int64_t>(static_cast<int64_t>(longest), 1, kMaxRoom);
  for (size_t i = 0; i < texts.size(); ++i)
    if (const auto count = static_cast<int64_t>(starts_[i + 1] - starts_[i]); count > room_)
      throw Error(ErrorKind::data, {.where = texts[i].place,
                                    .what = "the transcript has more labels than there is room for",
                                    .got = std::to_string(count),
                                    .expected = "at most " + std::to_string(room_),
                                    .hint = count <= kMaxRoom ? "labels = " + std::to_string(count) + " in all parts makes room" : ""});
}

Field Transcripts::field() const {
  std::vector<std::string> names = vocabulary_.names();
  names[0] = "";  // the blank
  return {.name = "y", .dtype = Dtype::i64, .shape = {room_}, .class_names = std::move(names)};
}

void Transcripts::read(int64_t index, int64_t* labels) const {
  const size_t begin = starts_[static_cast<size_t>(index)], end = starts_[static_cast<size_t>(index) + 1];
  std::copy(labels_.begin() + static_cast<std::ptrdiff_t>(begin), labels_.begin() + static_cast<std::ptrdiff_t>(end), labels);
  std::fill(labels + (end - begin), labels + room_, -1);
}

Json Transcripts::fitted() const { return Json(Json::Object{{"vocabulary", vocabulary_.to_json()}, {"labels", room_}}); }

}  // namespace perigee
