// {"type": "concat", "sources": [{...}, {...}]}
#include <algorithm>

#include "src/data/concat_source.h"

namespace perigee {
namespace {

class ConcatSource : public DataSource {
 public:
  explicit ConcatSource(std::vector<SourcePtr> sources) : sources_(std::move(sources)), fields_(sources_[0]->fields()) {
    for (const auto& source : sources_) {
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + source->size());
      far_.push_back(source->traits().read_ahead > 0);
      // Labels without names are counted by their greatest, which a part of a data set may lack.
      for (size_t i = 0; i < fields_.size(); ++i) fields_[i].classes = std::max(fields_[i].classes, source->fields()[i].classes);
    }
  }
  int64_t size() const override { return ends_.back(); }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    const size_t part = part_of(key);
    sources_[part]->read(inner_key(key, part), slots);
  }
  void expect(std::span<const ReadKey> keys) const override {
    std::vector<std::vector<ReadKey>> inner(sources_.size());
    for (const ReadKey& key : keys) {
      const size_t part = part_of(key);
      inner[part].push_back(inner_key(key, part));
    }
    for (size_t part = 0; part < sources_.size(); ++part)
      if (!inner[part].empty() && far_[part]) sources_[part]->expect(inner[part]);
  }
  SourceTraits traits() const override {
    SourceTraits all = sources_[0]->traits();
    for (size_t i = 1; i < sources_.size(); ++i) {
      const SourceTraits each = sources_[i]->traits();
      all.description += " + " + each.description;
      all.cheap = all.cheap && each.cheap;
      all.fixed = all.fixed && each.fixed;
      all.read_ahead = std::max(all.read_ahead, each.read_ahead);
    }
    all.live = all.touches = false;
    return all;
  }

 private:
  size_t part_of(const ReadKey& key) const {
    return static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), key.index) - ends_.begin());
  }
  ReadKey inner_key(ReadKey key, size_t part) const {
    if (part == 0) return key;
    key.index -= ends_[part - 1];
    key.seed += part * 0x9E3779B97F4A7C15u;  // example 0 of each source has draws of its own
    return key;
  }

  std::vector<SourcePtr> sources_;
  std::vector<Field> fields_;
  std::vector<int64_t> ends_;
  std::vector<bool> far_;  // by source: it wants to hear of what is read ahead
};

// As much of the names as a message has room for.
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 20;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return text + (names.size() > kShown ? ", ..." : "");
}

std::string fields_text(const DataSource& source) {
  std::string text;
  for (const auto& field : source.fields()) {
    text += (text.empty() ? "" : ", ") + field.name + ": " + Type{field.dtype, field.shape}.text();
    if (field.classes > 0 && field.class_names.empty()) text += " (a class)";
    if (!field.class_names.empty()) text += " (" + std::to_string(field.classes) + " classes: " + listed(field.class_names) + ")";
  }
  return text;
}

SourcePtr open_concat(const Config& config, const std::string& folder) {
  const Json* list = config.raw("sources");
  if (list == nullptr || !list->is_array() || list->as_array().empty()) config.fail("sources", "must be a list of data sources");
  std::vector<SourcePtr> sources;
  for (size_t i = 0; i < list->as_array().size(); ++i) {
    // The first source's fitted values hold for all: they are one data set.
    const Json description = sources.empty() ? list->as_array()[i] : with_fitted(list->as_array()[i], sources[0]->traits().fitted);
    sources.push_back(open_source(config.element(description, "sources[" + std::to_string(i + 1) + "]"), folder));
  }
  return concat_sources(std::move(sources), config.where());
}

}  // namespace

SourcePtr concat_sources(std::vector<SourcePtr> sources, const std::string& where) {
  const std::string first = fields_text(*sources[0]);
  for (const auto& source : sources)
    if (fields_text(*source) != first ||
        !std::ranges::equal(source->fields(), sources[0]->fields(), {}, &Field::class_names, &Field::class_names))
      throw Error(ErrorKind::data, {.where = where,
                                    .what = "sources with other fields cannot be joined: " + source->traits().description,
                                    .got = fields_text(*source),
                                    .expected = first});
  return sources.size() == 1 ? sources[0] : std::make_shared<ConcatSource>(std::move(sources));
}

namespace {

constexpr const char* kConcatPositional[] = {"sources"};
constexpr Option kConcatOptions[] = {{"sources", "list of sources", nullptr, "in order"}};

}  // namespace

extern const SourceDef source_concat;
const SourceDef source_concat{.type = "concat",
                              .doc = "All of 'sources', one after the other",
                              .schema = {.options = kConcatOptions, .positional = kConcatPositional},
                              .open = open_concat,
                              .wraps = true};

}  // namespace perigee
