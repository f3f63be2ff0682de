// {"type": "packed", "source": {...}, "length": 512}: the sequences of another source, several one after the other in each row of a fixed length, so
// that little of a row is padding. Which lengths share a row is settled when the source is opened, by the best fit for the longest first; which of
// the sequences of one length lies where changes from epoch to epoch. A row says of each step with which step its sequence begins
// (FieldRole::segment), by which layers keep sequences apart. Each sequence comes once in an epoch.
#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "src/data/loader.h"
#include "src/data/sound/rated.h"
#include "src/data/transform.h"

namespace perigee {
namespace {

constexpr uint64_t kPackedSalt = 0x7061636b6564ull;
constexpr int64_t kMostRowLength = 1 << 20;
constexpr size_t kMostPackedFields = 64;

// The treatment of a field of the source inside.
enum class PackedUse : uint8_t {
  steps,   // one sequence behind the other
  label,   // a number of each sequence: at one of its steps, -1 at the others
  weight,  // a number of each sequence: at all of its steps
  left     // the lengths, and a field whose name a new one takes
};

struct PackedField {
  PackedUse use = PackedUse::left;
  size_t slot = 0;   // among the fields of a row
  int64_t rows = 1;  // of all steps, in an example
  size_t step_bytes = 0;
  int64_t padding = 0;  // of integers; other numbers are 0
};

// Which sequences lie in which row.
struct Packing {
  std::vector<int64_t> order;      // the sequences, the longest first
  std::vector<int64_t> first;      // of each place in `order`, the first place of that length
  std::vector<int64_t> places;     // by row
  std::vector<int64_t> begins{0};  // row -> its first in `places`

  int64_t rows() const { return static_cast<int64_t>(begins.size()) - 1; }
};

Packing pack(const std::vector<int64_t>& lengths, int64_t room, int64_t most) {
  Packing packing;
  packing.order.resize(lengths.size());
  std::iota(packing.order.begin(), packing.order.end(), int64_t{0});
  const auto length_at = [&](size_t place) { return lengths[static_cast<size_t>(packing.order[place])]; };
  if (most > 1)
    std::stable_sort(packing.order.begin(), packing.order.end(),
                     [&](int64_t a, int64_t b) { return lengths[static_cast<size_t>(a)] > lengths[static_cast<size_t>(b)]; });
  std::vector<std::vector<int64_t>> rows;
  std::map<int64_t, std::vector<size_t>> open;  // steps that are free -> rows
  for (size_t place = 0; place < packing.order.size(); ++place) {
    const int64_t length = length_at(place);
    packing.first.push_back(most > 1 && place > 0 && length_at(place - 1) == length ? packing.first.back() : static_cast<int64_t>(place));
    const auto best = open.lower_bound(length);
    size_t row = rows.size();
    int64_t free = room;
    if (best == open.end()) {
      rows.emplace_back();
    } else {
      free = best->first, row = best->second.back();
      best->second.pop_back();
      if (best->second.empty()) open.erase(best);
    }
    rows[row].push_back(static_cast<int64_t>(place));
    if (static_cast<int64_t>(rows[row].size()) < most) open[free - length].push_back(row);
  }
  for (const auto& row : rows) {
    packing.places.insert(packing.places.end(), row.begin(), row.end());
    packing.begins.push_back(static_cast<int64_t>(packing.places.size()));
  }
  return packing;
}

class PackedSource final : public DataSource {
 public:
  PackedSource(SourcePtr inner, const Config& config)
      : inner_(std::move(inner)),
        length_(config.integer_in("length", 1, kMostRowLength)),
        mixed_(config.boolean("mix")),
        last_(config.choice("label_at") == "last") {
    const std::string name = config.string("field");
    tokens_ = field_index(*inner_, name, config.where());
    lengths_ = lengths_of(inner_->fields(), name);
    const Field& tokens = inner_->fields()[tokens_];
    if (tokens.shape.rank() < 1 || lengths_ < 0)
      config.fail("field", "has no sequences with a length of each", Type{tokens.dtype, tokens.shape}.text(),
                  "a field whose source says how long it is: pg.data.documents { length = ... }");
    const std::string next = config.string("next", "");
    if (!next.empty() && (tokens.dtype != Dtype::i64 || tokens.shape.rank() != 1))
      config.fail("next", "is what comes behind each token, and the field has none", Type{tokens.dtype, tokens.shape}.text(),
                  "i64 numbers of a text");
    for (size_t f = 0; f < inner_->fields().size(); ++f) add_inner(config, f, next);
    add_new(config, {.name = config.string("lengths"), .dtype = Dtype::i64, .shape = {}, .role = FieldRole::length, .of = name},
            &length_slot_);
    add_new(config, {.name = config.string("segments"), .dtype = Dtype::i64, .shape = {length_}, .role = FieldRole::segment, .of = name},
            &segment_slot_);
    if (!next.empty()) add_new(config, {.name = next, .dtype = Dtype::i64, .shape = {length_}}, &next_slot_);
    place_sequences(config);
  }

  int64_t size() const override { return packing_.rows(); }
  const std::vector<Field>& fields() const override { return fields_; }

  void expect(std::span<const ReadKey> keys) const override {
    for (const ReadKey& key : keys) each_of(key, [&](const ReadKey& inside) { inner_->expect({&inside, 1}); });
  }

  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    const Scratch scratch(scratch_bytes_);
    std::byte* inside[kMostPackedFields];
    std::byte* free = scratch.data();
    for (size_t f = 0; f < inner_->fields().size(); ++f) inside[f] = free, free += padded(inner_->fields()[f]);
    const std::span<std::byte* const> sequence(inside, inner_->fields().size());
    int64_t at = 0;
    each_of(key, [&](const ReadKey& one) {
      inner_->read(one, sequence);
      const int64_t count = length_in(sequence, one.index);
      if (count > length_ - at) refuse_growth(one.index);
      write(sequence, slots, at, count);
      at += count;
    });
    write_padding(slots, at);
    std::memcpy(slots[length_slot_], &at, sizeof at);
  }

  SourceTraits traits() const override {
    SourceTraits traits = inner_->traits();
    const double row = static_cast<double>(length_);
    const auto sequences = static_cast<double>(packing_.places.size());
    char used[160];
    std::snprintf(used, sizeof used, "; %lld rows of %lld steps, of which %.1f %% are used; a row for each sequence: %.1f %%",
                  static_cast<long long>(size()), static_cast<long long>(length_),
                  100 * static_cast<double>(steps_) / row / static_cast<double>(size()),
                  100 * static_cast<double>(steps_) / row / sequences);
    traits.description += used;
    traits.fixed = traits.fixed && !mixed_;
    traits.cheap = traits.touches = false;
    return traits;
  }

 private:
  static size_t padded(const Field& field) {
    return (static_cast<size_t>(field.shape.elements()) * dtype_bytes(field.dtype) + 63) / 64 * 64;
  }

  void add_inner(const Config& config, size_t f, const std::string& next) {
    const Field& field = inner_->fields()[f];
    const Field& tokens = inner_->fields()[tokens_];
    scratch_bytes_ += padded(field);
    PackedField packed{.slot = fields_.size(), .step_bytes = dtype_bytes(field.dtype)};
    Field row = field;
    const int64_t steps = tokens.shape[tokens.shape.rank() - 1];
    if (static_cast<int64_t>(f) == lengths_ || field.name == next) {
      inner_fields_.push_back(packed);
      return;
    }
    if (field.shape.rank() > 0 && field.shape[field.shape.rank() - 1] == steps && field.role != FieldRole::length) {
      packed.use = PackedUse::steps;
      packed.rows = field.shape.elements() / std::max<int64_t>(1, steps);
      packed.padding = f == tokens_ || field.role != FieldRole::none ? 0 : -1;
      row.shape = field.shape.with(field.shape.rank() - 1, length_);
    } else if (field.shape.rank() == 0 && field.dtype == Dtype::i64 && field.role == FieldRole::none) {
      packed.use = PackedUse::label, packed.padding = -1;
      row.shape = {length_}, row.classes = 0;
    } else if (field.shape.rank() == 0 && field.role == FieldRole::weight) {
      packed.use = PackedUse::weight;
      row.shape = {length_};
    } else {
      config.fail("source", "has a field that cannot lie in a row of several sequences",
                  "'" + field.name + "' of " + Type{field.dtype, field.shape}.text(),
                  "fields with the steps of '" + tokens.name + "', labels, and weights");
    }
    inner_fields_.push_back(packed);
    fields_.push_back(std::move(row));
  }

  void add_new(const Config& config, Field field, int64_t* slot) {
    for (const Field& known : fields_)
      if (known.name == field.name)
        config.fail(field.role == FieldRole::segment  ? "segments"
                    : field.role == FieldRole::length ? "lengths"
                                                      : "next",
                    "names a field that is there already", "'" + field.name + "'", "another name");
    *slot = static_cast<int64_t>(fields_.size());
    fields_.push_back(std::move(field));
  }

  // Reads how long each sequence is.
  void place_sequences(const Config& config) {
    std::vector<std::byte> room(scratch_bytes_);
    std::vector<std::byte*> slots;
    std::byte* free = room.data();
    for (const Field& field : inner_->fields()) slots.push_back(free), free += padded(field);
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < inner_->size(); ++i) {
      inner_->read({.index = i}, slots);
      lengths.push_back(length_in(slots, i));
      steps_ += lengths.back();
      if (lengths.back() > length_)
        config.fail("length", "is less than a sequence has",
                    "sequence " + std::to_string(i) + " of " + std::to_string(lengths.back()) + " steps",
                    "at least as much as the longest, or a source that cuts it");
    }
    packing_ = pack(lengths, length_, config.integer("most", kMostRowLength));
  }

  int64_t length_in(std::span<std::byte* const> slots, int64_t index) const {
    int64_t count = 0;
    std::memcpy(&count, slots[static_cast<size_t>(lengths_)], sizeof count);
    const Field& tokens = inner_->fields()[tokens_];
    const int64_t steps = tokens.shape[tokens.shape.rank() - 1];
    if (count < 0 || count > steps)
      throw Error(ErrorKind::data, {.where = "packed: sequence " + std::to_string(index),
                                    .what = "the length is none of the field",
                                    .got = std::to_string(count),
                                    .expected = "0 to " + std::to_string(steps)});
    return count;
  }

  [[noreturn]] void refuse_growth(int64_t index) const {
    throw Error(ErrorKind::data, {.where = "packed: sequence " + std::to_string(index),
                                  .what = "is longer than it was when the rows were made",
                                  .expected = "the same length in every epoch",
                                  .hint = "put transforms that change a length behind packed, or leave packed out"});
  }

  // The sequences of a row, in their order.
  template <class F>
  void each_of(const ReadKey& key, F f) const {
    const auto row = static_cast<size_t>(key.index);
    for (int64_t i = packing_.begins[row]; i < packing_.begins[row + 1]; ++i) {
      const int64_t place = packing_.places[static_cast<size_t>(i)], first = packing_.first[static_cast<size_t>(place)];
      const auto same =
          static_cast<int64_t>(std::upper_bound(packing_.first.begin() + place, packing_.first.end(), first) - packing_.first.begin()) -
          first;
      const int64_t chosen = mixed_ && same > 1 ? first + shuffled_index(key.seed ^ kPackedSalt, key.epoch, place - first, same) : place;
      f(ReadKey{.index = packing_.order[static_cast<size_t>(chosen)], .epoch = key.epoch, .seed = key.seed});
    }
  }

  // A sequence of `count` steps goes to step `at` of the row.
  void write(std::span<std::byte* const> sequence, std::span<std::byte* const> slots, int64_t at, int64_t count) const {
    for (size_t f = 0; f < inner_fields_.size(); ++f) {
      const PackedField& field = inner_fields_[f];
      if (field.use == PackedUse::left) continue;
      const size_t bytes = field.step_bytes;
      std::byte* const to = slots[field.slot] + static_cast<size_t>(at) * bytes;
      if (field.use == PackedUse::steps) {
        const Shape& shape = inner_->fields()[f].shape;
        for (int64_t r = 0; r < field.rows; ++r)
          std::memcpy(to + static_cast<size_t>(r * length_) * bytes, sequence[f] + static_cast<size_t>(r * shape[shape.rank() - 1]) * bytes,
                      static_cast<size_t>(count) * bytes);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        const bool here = field.use == PackedUse::weight || i == (last_ ? count - 1 : 0);
        std::memcpy(to + static_cast<size_t>(i) * bytes, here ? static_cast<const void*>(sequence[f]) : &field.padding, bytes);
      }
    }
    auto* segments = reinterpret_cast<int64_t*>(slots[static_cast<size_t>(segment_slot_)]) + at;
    std::fill_n(segments, count, at + 1);
    if (next_slot_ < 0 || count == 0) return;
    auto* next = reinterpret_cast<int64_t*>(slots[static_cast<size_t>(next_slot_)]) + at;
    std::memcpy(next, sequence[tokens_] + sizeof(int64_t), static_cast<size_t>(count - 1) * sizeof(int64_t));
    next[count - 1] = -1;  // what stands behind the last is of another sequence
  }

  void write_padding(std::span<std::byte* const> slots, int64_t at) const {
    for (size_t f = 0; f < inner_fields_.size(); ++f) {
      const PackedField& field = inner_fields_[f];
      if (field.use == PackedUse::left) continue;
      const Dtype dtype = inner_->fields()[f].dtype;
      for (int64_t r = 0; r < field.rows; ++r) {
        std::byte* const to = slots[field.slot] + static_cast<size_t>(r * length_ + at) * field.step_bytes;
        if (dtype == Dtype::i64) std::fill_n(reinterpret_cast<int64_t*>(to), length_ - at, field.padding);
        else std::memset(to, 0, static_cast<size_t>(length_ - at) * field.step_bytes);
      }
    }
    std::fill_n(reinterpret_cast<int64_t*>(slots[static_cast<size_t>(segment_slot_)]) + at, length_ - at, 0);
    if (next_slot_ >= 0) std::fill_n(reinterpret_cast<int64_t*>(slots[static_cast<size_t>(next_slot_)]) + at, length_ - at, -1);
  }

  SourcePtr inner_;
  std::vector<Field> fields_;
  std::vector<PackedField> inner_fields_;
  const int64_t length_;
  const bool mixed_, last_;
  size_t tokens_ = 0, scratch_bytes_ = 0;
  int64_t lengths_ = -1, length_slot_ = -1, segment_slot_ = -1, next_slot_ = -1;
  int64_t steps_ = 0;  // of all sequences
  Packing packing_;
};

SourcePtr open_packed(const Config& config, const std::string& folder) {
  const SourcePtr inner = open_source(config.object("source"), folder);
  if (inner->fields().size() >= kMostPackedFields)
    config.fail("source", "has too many fields to be packed", std::to_string(inner->fields().size()), "fewer than 64");
  return std::make_shared<PackedSource>(inner, config);
}

constexpr const char* kPackedPositional[] = {"source"};
constexpr Option kPackedOptions[] = {
    {"source", "source", nullptr, "where the sequences come from; it says how long each is"},
    {"length", "integer", nullptr, "steps of a row", {1, kMostRowLength}},
    {"next", "string", "none",
     "a field of this name gets the token behind each, -1 at the end of a sequence: the target of a language model"},
    {"most", "integer", "as many as fit", "sequences in a row; with 1 they keep their order", {1, kMostRowLength}},
    {"mix", "boolean", "true", "sequences of one length change places in every epoch, so that each comes among others"},
    {"label_at", "name", "last", "the step that has the label of a sequence; others have -1", {}, {"first", "last"}},
    {"field", "string", "x", "the sequences"},
    {"lengths", "string", "n", "field for the steps of a row that are used"},
    {"segments", "string", "s", "field that says of each step with which step, from 1 on, its sequence begins"}};

}  // namespace

extern const SourceDef source_packed;
// It reads data itself, as balanced does: which sequences share a row depends on all of them.
const SourceDef source_packed{
    .type = "packed",
    .doc =
        "The sequences of 'source', several one after the other in each row of 'length' steps, so that little is padding. attention, "
        "transformer and positions keep them apart; the target of a sequence's last step is none of another. For losses with ignore = -1. "
        "Options: length, next (a field for the token behind each), most, mix (true), label_at (last), field (x), lengths (n), segments "
        "(s)",
    .schema = {.options = kPackedOptions, .positional = kPackedPositional},
    .open = open_packed,
    .wraps = false};

}  // namespace perigee
