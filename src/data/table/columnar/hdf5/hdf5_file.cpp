#include "src/data/table/columnar/hdf5/hdf5_file.h"

#include <algorithm>

#include "src/core/error.h"
#include "src/io/hdf5/hdf5.h"

namespace perigee::tables {
namespace {

constexpr uint64_t kMostHdf5FileSpread = 1024;  // numbers of a row that become a column each
constexpr size_t kMostHdf5FileColumns = 65536;

// Where a column's values are.
struct Source {
  const hdf5::DataSet* set = nullptr;
  const hdf5::Type* type = nullptr;
  size_t offset = 0;   // in a row's bytes
  uint64_t count = 1;  // numbers of a list
  std::string refusal = {};
  size_t row_bytes = 0, item_bytes = 0;  // from one row, or number of a list, to the next
};

// MATLAB's arrays lie column by column: the first axis of the file is the last one there.
struct TableShape {
  uint64_t rows = 0, columns = 0;
};
TableShape shape_of(const hdf5::DataSet& set, bool turned) {
  if (!turned || set.shape.empty()) return {set.rows(), set.row_elements()};
  TableShape shape{set.shape.back(), 1};
  for (size_t a = 0; a + 1 < set.shape.size(); ++a) shape.columns *= set.shape[a];
  if (shape.rows == 1) std::swap(shape.rows, shape.columns);  // a vector may lie or stand
  return shape;
}

class Hdf5File : public ColumnarFile {
 public:
  explicit Hdf5File(const ColumnarInput& input)
      : file_(input.name, input.content, input.owner),
        bytes_(input.content.size()),
        most_((uint64_t{16} << 20) + 32 * bytes_),
        turned_(as_text(input.content).starts_with("MATLAB 7.3 MAT-file")) {
    choose(input.part);
    uint64_t rows_of_chunk = 1;
    for (const Source& source : sources_)
      if (!source.set->chunk.empty()) rows_of_chunk = std::max(rows_of_chunk, source.set->chunk[0]);
    // Whole chunks of the file, so that none is unpacked twice, unless they are very long.
    const auto usual = static_cast<uint64_t>(chunk_rows(sources_.size()));
    const uint64_t most = std::max<uint64_t>((uint64_t{1} << 20) / std::max<size_t>(sources_.size(), 1), 1);
    if (turned_) chunk_ = rows_;
    else chunk_ = usual > rows_of_chunk ? usual / rows_of_chunk * rows_of_chunk : rows_of_chunk <= most ? rows_of_chunk : usual;
  }

  const TableSchema& schema() const override { return schema_; }
  std::string refusal(size_t column) const override { return sources_[column].refusal; }
  int64_t chunks() const override { return static_cast<int64_t>((rows_ + chunk_ - 1) / chunk_); }

  Frame read(int64_t chunk, std::span<const size_t> columns) const override {
    const uint64_t first = static_cast<uint64_t>(chunk) * chunk_, rows = std::min(chunk_, rows_ - first);
    Frame frame{.rows = static_cast<int64_t>(rows)};
    const hdf5::DataSet* now = nullptr;
    Bytes bytes;
    for (const size_t c : columns) {
      const Source& source = sources_[c];
      if (source.set != now) bytes = turned_ ? file_.read(*source.set, 0, source.set->rows()) : file_.read(*source.set, first, rows);
      now = source.set;
      frame.schema.columns.push_back(schema_.columns[c]);
      frame.columns.push_back(column(source, schema_.columns[c].type, bytes, first, rows));
    }
    return frame;
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& got, const std::string& expected = "") const {
    throw Error(ErrorKind::data,
                {.where = file_.name(), .what = what, .got = got, .expected = expected, .hint = "FILE#PATH chooses a data set or a group"});
  }

  std::string known() const {
    std::string text;
    for (size_t s = 0; s < file_.sets().size() && s < 16; ++s) {
      const hdf5::DataSet& set = file_.sets()[s];
      text += (s ? ", '" : "'") + set.path.substr(0, 60) + "' [";
      for (size_t a = 0; a < set.shape.size(); ++a) text += (a ? ", " : "") + std::to_string(set.shape[a]);
      text += "]";
    }
    return text;
  }

  void choose(const std::string& part) {
    bool any = false, first = true, any_counts = false;
    std::vector<const hdf5::DataSet*> sets;
    uint64_t most = 0;
    const auto counts = [&](const hdf5::DataSet& set) { return set.path == part || (set.refusal.empty() && !may_be_letters(set)); };
    for (const hdf5::DataSet& set : file_.sets()) {
      const bool itself = set.path == part, inside = part.empty() || set.path.starts_with(part + "/");
      if ((!itself && !inside) || (set.shape.empty() && !itself)) continue;
      if (turned_ && set.path.starts_with("#")) continue;  // what cells and objects refer to
      sets.push_back(&set);
      any_counts |= counts(set);
    }
    for (const hdf5::DataSet* set : sets)
      if (counts(*set) || !any_counts) most = std::max(most, shape_of(*set, turned_).rows);
    for (const hdf5::DataSet* set : sets) {
      const bool itself = set->path == part;
      const uint64_t rows = shape_of(*set, turned_).rows;
      if (turned_ && rows <= 1 && rows < most) continue;  // a number beside arrays says something of them
      // Nor are cells, and letters of another length, rows of the table.
      if (turned_ && any_counts && !counts(*set) && (!set->refusal.empty() || rows != most)) continue;
      any = true;
      if (first) rows_ = rows;
      first = false;
      if (rows != rows_) fail("the data sets have different numbers of rows", known(), "data sets of one table");
      std::string name = itself ? set->path.substr(set->path.rfind('/') + 1) : set->path.substr(part.empty() ? 0 : part.size() + 1);
      add_set(*set, name);
    }
    if (!any)
      fail(part.empty() ? "the HDF5 file has no data set with rows" : "the HDF5 file has no such data set or group",
           part.empty() ? known() : "'" + part.substr(0, 60) + "'", part.empty() ? "" : "one of " + known());
    if (rows_ == 0) fail("the table has no rows", known());
  }

  // MATLAB has letters as numbers of 16 bits in a line.
  bool may_be_letters(const hdf5::DataSet& set) const {
    return turned_ && set.type.kind == hdf5::Type::Kind::whole && set.type.size == 2 && !set.type.is_signed &&
           shape_of(set, turned_).columns == 1;
  }

  void add_set(const hdf5::DataSet& set, const std::string& name) {
    using Kind = hdf5::Type::Kind;
    if (set.type.kind == Kind::compound && set.row_elements() == 1) {
      for (const hdf5::Member& member : set.type.members) {
        Source source{.set = &set, .type = &member.type, .offset = member.offset, .refusal = set.refusal};
        if (member.type.kind == Kind::array) source.type = &member.type.members[0].type, source.count = member.type.count;
        if (member.type.kind == Kind::other) source.refusal = "it has elements of " + member.type.what;
        if (member.type.kind == Kind::compound) source.refusal = "it is a compound inside another";
        add(member.name, source);
      }
      return;
    }
    Source source{.set = &set, .type = &set.type, .count = shape_of(set, turned_).columns, .refusal = set.refusal};
    if (set.type.kind == Kind::array) source.type = &set.type.members[0].type, source.count *= set.type.count;
    if (set.type.kind == Kind::compound && source.refusal.empty()) source.refusal = "it has several compounds in a row";
    const bool number = source.type->kind == Kind::whole || source.type->kind == Kind::real;
    if (source.count != 1 && !number && source.type->kind != Kind::boolean && source.refusal.empty())
      source.refusal = "it has several texts in a row";
    if (source.count == 1 || source.count > kMostHdf5FileSpread || !source.refusal.empty() || set.shape.size() < 2)
      return add(name, source);
    const uint64_t count = source.count;
    source.count = 1;
    for (uint64_t i = 0; i < count; ++i, source.offset += source.type->size * (turned_ ? rows_ : 1))
      add(name + "[" + std::to_string(i) + "]", source);
  }

  void add(const std::string& name, Source source) {
    using Kind = hdf5::Type::Kind;
    source.row_bytes = turned_ ? source.set->type.size : source.set->row_elements() * source.set->type.size;
    source.item_bytes = turned_ ? source.set->type.size * rows_ : source.type->size;
    // It is read as a whole.
    if (turned_ && source.refusal.empty() &&
        source.set->type.size * source.set->row_elements() > most_ / std::max<uint64_t>(source.set->rows(), 1))
      source.refusal = "it is an array of MATLAB that is far larger than its file";
    if (schema_.columns.size() >= kMostHdf5FileColumns) fail("the data sets make too many columns", known());
    std::string unique = name;
    while (std::any_of(sources_.begin(), sources_.end(), [&](const Source& other) { return other.set != source.set; }) &&
           schema_.find(unique) >= 0)
      unique += "_" + std::to_string(schema_.columns.size());
    const Kind kind = source.type->kind;
    const Type type = source.count != 1       ? Type::list
                      : kind == Kind::whole   ? Type::integer
                      : kind == Kind::real    ? Type::real
                      : kind == Kind::boolean ? Type::boolean
                                              : Type::text;
    schema_.columns.push_back({.name = unique, .type = type});
    sources_.push_back(source);
  }

  Column column(const Source& source, Type type, const Bytes& bytes, uint64_t first, uint64_t rows) const {
    using Kind = hdf5::Type::Kind;
    Column column(type);
    column.reserve(static_cast<int64_t>(rows));
    hdf5::File::Texts texts(file_);
    for (uint64_t r = 0; r < rows; ++r) {
      const std::byte* at = bytes.data() + r * source.row_bytes + source.offset;
      if (type == Type::real) column.real.push_back(real_of(*source.type, at));
      else if (type == Type::list) {
        for (uint64_t i = 0; i < source.count; ++i) column.items.push_back(real_of(*source.type, at + i * source.item_bytes));
        column.ends.push_back(column.items.size());
      } else if (type == Type::text) {
        column.add_text(source.type->kind == Kind::any_text ? texts.at(at) : text_of(*source.type, at));
        if (column.bytes.size() > (uint64_t{16} << 20) + 16 * bytes_)
          fail("the texts of '" + source.set->path.substr(0, 60) + "' are far larger than the file", "");
      } else {
        if (!whole_fits(*source.type, at))
          throw Error(ErrorKind::data,
                      {.where = file_.name() + ": " + source.set->path.substr(0, 60) + ": row " + std::to_string(first + r + 1),
                       .what = "a number does not fit 64 bits with a sign",
                       .got = std::to_string(static_cast<uint64_t>(whole_of(*source.type, at)))});
        column.whole.push_back(whole_of(*source.type, at));
      }
    }
    return column;
  }

  hdf5::File file_;
  uint64_t bytes_, most_;
  bool turned_;
  TableSchema schema_;
  std::vector<Source> sources_;
  uint64_t rows_ = 0, chunk_ = 1;
};

}  // namespace

std::unique_ptr<ColumnarFile> open_hdf5(const ColumnarInput& input) { return std::make_unique<Hdf5File>(input); }

}  // namespace perigee::tables
