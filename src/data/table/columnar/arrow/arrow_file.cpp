#include "src/data/table/columnar/arrow/arrow_file.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "src/data/table/columnar/arrow/arrow_schema.h"
#include "src/data/table/columnar/arrow/arrow_values.h"
#include "src/io/damaged.h"

namespace perigee::tables::arrow {
namespace {

constexpr size_t kMostMessages = 10'000'000;

// One message: its metadata, and where its body lies.
struct Message {
  uint64_t metadata = 0, size = 0, body = 0, body_size = 0;
};

// A batch's dictionaries as they are when it comes: for each id the messages that make it.
using Dictionaries = std::map<int64_t, std::vector<Message>>;

class ArrowFile : public ColumnarFile {
 public:
  ArrowFile(const std::string& name, std::span<const std::byte> content, std::shared_ptr<const void> owner)
      : name_(name), content_(content), owner_(std::move(owner)) {
    scan();
    for (const ArrowField& field : fields_) {
      std::string column = field.name;
      while (schema_.find(column) >= 0) column += "_" + std::to_string(schema_.columns.size());
      schema_.columns.push_back({.name = column, .type = field.type});
    }
    for (size_t i = 0; i < batches_.size(); ++i) divide(i);
  }

  const TableSchema& schema() const override { return schema_; }
  std::string refusal(size_t column) const override { return fields_[column].refusal; }
  int64_t chunks() const override { return static_cast<int64_t>(parts_.size()); }

  Frame read(int64_t chunk, std::span<const size_t> columns) const override {
    const auto& [batch, from, to] = parts_[static_cast<size_t>(chunk)];
    const auto& [message, dictionaries] = batches_[batch];
    const FlatBytes metadata = flat(message);
    BatchReader reader = batch_of(metadata, FlatTable::root(metadata).table(2), message);
    Frame frame;
    frame.rows = to - from;
    Room room(content_.size());
    for (size_t f = 0, next = 0; f < fields_.size() && next < columns.size(); ++f) {
      if (f != columns[next]) {
        reader.skip(fields_[f]);
        continue;
      }
      ++next;
      Column column = fields_[f].dictionary < 0 ? reader.column(fields_[f]) : decoded(reader, fields_[f], *dictionaries);
      if (column.size() != reader.rows()) damaged("a column of the Arrow batch has another number of rows than it", message.metadata);
      if (frame.rows != reader.rows()) column = cut(column, from, to);
      if (!room.take(column.bytes.size() + 8 * column.items.size() + kCellBytes * static_cast<uint64_t>(frame.rows)))
        damaged("a batch of the Arrow file has far more in it than a file of this size would have; write smaller batches",
                message.metadata);
      frame.add(schema_.columns[f], std::move(column));
    }
    return frame;
  }

 private:
  // Some rows of a batch: all of them, unless they are far more than its bytes let expect.
  struct Part {
    size_t batch = 0;
    int64_t from = 0, to = 0;
  };

  static Column cut(const Column& whole, int64_t from, int64_t to) {
    std::vector<int64_t> rows;
    rows.reserve(static_cast<size_t>(to - from));
    for (int64_t r = from; r < to; ++r) rows.push_back(r);
    return whole.rows(rows);
  }

  void divide(size_t number) {
    const Message& message = batches_[number].first;
    const FlatBytes metadata = flat(message);
    const int64_t all = batch_of(metadata, FlatTable::root(metadata).table(2), message).rows();
    uint64_t row = 1;
    for (const ColumnSpec& spec : schema_.columns) row += kCellBytes + (spec.type == Type::text || spec.type == Type::list ? 24 : 0);
    const uint64_t most = most_chunk(content_.size());
    int64_t rows = std::max<int64_t>(all, 1);
    if (static_cast<uint64_t>(all) > most / row) rows = std::max<int64_t>({static_cast<int64_t>(most / 2 / row), all / kMostParts, 1});
    for (int64_t from = 0; from < all || from == 0; from += rows) parts_.push_back({number, from, std::min(from + rows, all)});
    if (parts_.size() > kMostOfAll)
      damaged("the batches of the Arrow file have far more in them than their bytes can have", message.metadata);
  }

  [[noreturn]] void damaged(const char* what, uint64_t at, const char* hint = kGetAnew) const {
    throw Error(ErrorKind::data, {.where = name_ + ": byte " + std::to_string(at), .what = what, .hint = hint});
  }
  FlatBytes flat(const Message& message) const { return {content_.subspan(message.metadata, message.size), name_, message.metadata}; }

  BatchReader batch_of(const FlatBytes& metadata, const FlatTable& batch, const Message& message, uint64_t share = 1) const {
    return BatchReader(metadata, batch, version_, content_.subspan(message.body, message.body_size), name_, message.body, content_.size(),
                       most_page(content_.size()) / share);
  }

  // The message at `at`, whose size is 0 where there is no more.
  Message message_at(uint64_t at) const {
    uint32_t size = 0;
    std::memcpy(&size, content_.data() + at, 4);
    at += 4;
    if (size == 0xffffffffu) std::memcpy(&size, content_.data() + at, 4), at += 4;
    if (size > content_.size() - at) damaged("an Arrow message leads out of the file", at);
    Message message{.metadata = at, .size = size, .body = at + size};
    if (size == 0) return message;
    const FlatBytes metadata = flat(message);
    const auto body = FlatTable::root(metadata).number<int64_t>(3, 0);
    if (body < 0 || static_cast<uint64_t>(body) > content_.size() - message.body)
      damaged("the body of an Arrow message leads out of the file", at);
    message.body_size = static_cast<uint64_t>(body);
    return message;
  }

  void scan() {
    if (content_.size() < 16) damaged("the Arrow file is cut short", content_.size());
    const bool file = as_text(content_).starts_with("ARROW1");
    auto dictionaries = std::make_shared<Dictionaries>();
    bool changed = false;
    // Polars' files do not begin with a message as streams do: what is in them is said at their end alone.
    const bool framed = !file || content_.size() < 8 || as_text(content_).substr(8).starts_with("\xff\xff\xff\xff");
    const bool listed = !framed && by_footer(dictionaries, changed);
    uint64_t at = file ? 8 : 0;
    size_t count = 0;
    while (!listed && content_.size() - at >= 8) {
      const Message message = message_at(at);
      if (message.size == 0) break;
      if (++count > kMostMessages) damaged("the Arrow file has too many messages", at);
      const FlatBytes metadata = flat(message);
      at = message.body + message.body_size;
      take(FlatTable::root(metadata), message, dictionaries, changed);
    }
    if (fields_.empty()) damaged("the Arrow file has no schema, or no columns", 0);
  }

  // The schema and the places of all messages, as they stand at the end of a file; false: they do not.
  bool by_footer(std::shared_ptr<Dictionaries>& dictionaries, bool& changed) {
    constexpr uint64_t kTail = 10, kBlock = 24;
    if (!as_text(content_).ends_with("ARROW1") || content_.size() < 8 + kTail) return false;
    const uint64_t end = content_.size() - kTail;
    uint32_t size = 0;
    std::memcpy(&size, content_.data() + end, 4);
    if (size < 8 || size > end - 8) return false;
    const Message footer{.metadata = end - size, .size = size, .body = end};
    const FlatBytes metadata = flat(footer);
    const FlatTable root = FlatTable::root(metadata);
    version_ = root.number<int16_t>(0, 0);
    take_schema(root.table(1), footer);
    for (const size_t list : {2, 3}) {  // dictionaries, then batches
      const FlatVector blocks = root.vector(list, kBlock);
      uint64_t behind = 8;  // none may come twice: a file has no more in it than its bytes
      for (size_t i = 0; i < blocks.count; ++i) {
        const auto at = blocks.at<int64_t>(i);
        if (at < 0 || static_cast<uint64_t>(at) < behind || static_cast<uint64_t>(at) > end - 8)
          damaged("an Arrow message leads out of the file", footer.metadata);
        const Message message = message_at(static_cast<uint64_t>(at));
        if (message.size == 0) damaged("an Arrow message leads out of the file", static_cast<uint64_t>(at));
        behind = message.body + message.body_size;
        const FlatBytes of_message = flat(message);
        take(FlatTable::root(of_message), message, dictionaries, changed);
      }
    }
    return true;
  }

  void take_schema(const FlatTable& schema, const Message& message) {
    if (schema.number<int16_t>(0, 0) != 0)
      damaged("the Arrow file has numbers in big-endian order, which are not read", message.metadata, "write it in little-endian order");
    const FlatVector list = schema.vector(1, 4);
    if (list.count > most_columns(content_.size())) damaged("the Arrow file has more columns than its bytes can have", message.metadata);
    for (size_t i = 0; i < list.count; ++i) fields_.push_back(read_field(list.table(i)));
  }

  void take(const FlatTable& root, const Message& message, std::shared_ptr<Dictionaries>& dictionaries, bool& changed) {
    const auto kind = root.number<uint8_t>(1, 0);
    if (kind != 1 && fields_.empty()) damaged("the Arrow file does not begin with a schema", message.metadata);
    if (kind == 1) {
      if (!fields_.empty()) damaged("the Arrow file has two schemas", message.metadata);
      version_ = root.number<int16_t>(0, 0);
      take_schema(root.table(2), message);
    } else if (kind == 2) {
      if (!changed) dictionaries = std::make_shared<Dictionaries>(*dictionaries), changed = true;
      const FlatTable dictionary = root.table(2);
      std::vector<Message>& parts = (*dictionaries)[dictionary.number<int64_t>(0, 0)];
      if (dictionary.number<uint8_t>(2, 0) == 0) parts.clear();  // it takes the place of what was there
      parts.push_back(message);
    } else if (kind == 3) {
      batches_.emplace_back(message, dictionaries);
      changed = false;
    }
  }

  // Places in a dictionary become its values.
  Column decoded(BatchReader& reader, const ArrowField& field, const Dictionaries& dictionaries) const {
    ArrowField values = field;
    values.dictionary = -1;
    const std::vector<int64_t> places = reader.places(field);
    Column entries(field.type);
    if (const auto found = dictionaries.find(field.dictionary); found != dictionaries.end())
      for (const Message& message : found->second) {
        const FlatBytes metadata = flat(message);
        entries.append(batch_of(metadata, FlatTable::root(metadata).table(2).table(1), message, 4).column(values));
        if (entries.bytes.size() > most_page(content_.size()) / 4)
          damaged("a dictionary of the Arrow file has too much text", message.metadata);
      }
    uint64_t text = 0;
    for (const int64_t place : places) {
      if (place >= entries.size()) damaged("the Arrow file has a place beyond its dictionary", 0);
      if (place >= 0 && entries.type == Type::text) text += entries.text(place).size();
      if (text > most_page(content_.size()) / 2) damaged("a batch of the Arrow file has too much text; write smaller batches", 0);
    }
    return entries.rows(places);
  }

  std::string name_;
  std::span<const std::byte> content_;
  std::shared_ptr<const void> owner_;
  int16_t version_ = 4;
  std::vector<ArrowField> fields_;
  TableSchema schema_;
  std::vector<std::pair<Message, std::shared_ptr<const Dictionaries>>> batches_;
  std::vector<Part> parts_;
  static constexpr int64_t kMostParts = 256;
  static constexpr size_t kMostOfAll = size_t{1} << 18;
};

}  // namespace

std::unique_ptr<ColumnarFile> open_arrow(const std::string& name, std::span<const std::byte> content, std::shared_ptr<const void> owner) {
  return std::make_unique<ArrowFile>(name, content, std::move(owner));
}

}  // namespace perigee::tables::arrow
