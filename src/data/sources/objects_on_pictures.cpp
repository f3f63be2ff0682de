#include "src/data/sources/objects_on_pictures.h"

#include <algorithm>
#include <cmath>

#include "src/core/config.h"
#include "src/core/error.h"
#include "src/data/table.h"
#include "src/io/codec/compress.h"
#include "src/io/csv.h"

namespace perigee {
namespace {

constexpr uint64_t kMaxObjectsOnPicturesBytes = uint64_t{1} << 32;
constexpr size_t kMostClasses = 1 << 16;

// Columns as others name them; the first is ours.
constexpr const char* kObjectsOnPicturesNames[6][4] = {{"file", "filename", "image", "path"}, {"left", "xmin", "x1", "x_min"},
                                                       {"top", "ymin", "y1", "y_min"},        {"right", "xmax", "x2", "x_max"},
                                                       {"bottom", "ymax", "y2", "y_max"},     {"class", "label", "name", "category"}};

struct Row {
  std::string place, file, kind;
  double numbers[4] = {};
};

[[noreturn]] void no_box(const std::string& place, const std::string& got) {
  throw Error(ErrorKind::data,
              {.where = place, .what = "this is no box", .got = got, .expected = "left < right and top < bottom, in pixels"});
}

void check_objects_on_pictures(const Row& row) {
  const auto& [left, top, right, bottom] = row.numbers;
  for (const double number : row.numbers)
    if (!(std::abs(number) < 1e7)) no_box(row.place, std::to_string(number));
  const auto apart = [](double low, double high) { return static_cast<float>(low) < static_cast<float>(high); };  // as they are kept
  if (!apart(left, right) || !apart(top, bottom))
    no_box(row.place, std::to_string(left) + ", " + std::to_string(top) + ", " + std::to_string(right) + ", " + std::to_string(bottom));
}

std::vector<Row> table_rows(std::string_view text, const std::string& path) {
  const Table table =
      csv_table(text, nullptr, path, {.delimiter = path.ends_with(".tsv") ? '\t' : ',', .expected = {"file", "left", "xmin", "x1"}});
  int64_t columns[6];
  for (size_t c = 0; c < 6; ++c) {
    columns[c] = -1;
    for (const char* name : kObjectsOnPicturesNames[c])
      if (columns[c] < 0) columns[c] = table.find(name);
    if (columns[c] < 0)
      throw Error(ErrorKind::data, {.where = path,
                                    .what = std::string("the table of boxes has no column '") + kObjectsOnPicturesNames[c][0] + "'",
                                    .got = table.names_text(),
                                    .expected = "file, left, top, right, bottom, class"});
  }
  std::vector<Row> rows;
  for (int64_t r = 0; r < table.rows; ++r) {
    const std::string_view file = table.cell(r, columns[0]);
    Row row{.place = table.place(r), .file = std::string(file.substr(file.rfind('/') + 1)), .kind = std::string(table.cell(r, columns[5]))};
    for (size_t k = 0; k < 4; ++k)
      if (!csv_number(table.cell(r, columns[k + 1]), row.numbers[k]))
        no_box(row.place, "'" + std::string(table.cell(r, columns[k + 1])) + "'");
    check_objects_on_pictures(row);
    rows.push_back(std::move(row));
  }
  return rows;
}

// The names of images or categories by their ids.
std::map<int64_t, std::string> coco_names(const Json& all, const char* list, const char* name, const std::string& path) {
  const Json* found = all.find(list);
  if (found == nullptr || !found->is_array())
    throw Error(ErrorKind::data, {.where = path, .what = std::string("COCO's JSON has no list '") + list + "'"});
  std::map<int64_t, std::string> names;
  for (const Json& each : found->as_array()) {
    const Json *id = each.is_object() ? each.find("id") : nullptr, *text = each.is_object() ? each.find(name) : nullptr;
    if (id == nullptr || !id->is_int() || text == nullptr || !text->is_string())
      throw Error(ErrorKind::data,
                  {.where = path, .what = std::string("an element of '") + list + "' lacks id or " + name, .got = shown(each)});
    const std::string& whole = text->as_string();
    names[id->as_int()] = whole.substr(whole.rfind('/') + 1);
  }
  return names;
}

std::vector<Row> coco_rows(const Json& all, const std::string& path) {
  if (!all.is_object()) throw Error(ErrorKind::data, {.where = path, .what = "this is no JSON of COCO", .got = all.type_name()});
  const auto files = coco_names(all, "images", "file_name", path), kinds = coco_names(all, "categories", "name", path);
  const Json* list = all.find("annotations");
  if (list == nullptr || !list->is_array()) throw Error(ErrorKind::data, {.where = path, .what = "COCO's JSON has no list 'annotations'"});
  std::vector<Row> rows;
  for (size_t i = 0; i < list->as_array().size(); ++i) {
    const Json& each = list->as_array()[i];
    Row row{.place = path + ": annotations[" + std::to_string(i + 1) + "]", .file = {}, .kind = {}};
    const Json *image = each.is_object() ? each.find("image_id") : nullptr, *kind = each.is_object() ? each.find("category_id") : nullptr,
               *box = each.is_object() ? each.find("bbox") : nullptr;
    const bool whole = image != nullptr && image->is_int() && files.contains(image->as_int()) && kind != nullptr && kind->is_int() &&
                       kinds.contains(kind->as_int()) && box != nullptr && box->is_array() && box->as_array().size() == 4 &&
                       std::all_of(box->as_array().begin(), box->as_array().end(), [](const Json& n) { return n.is_number(); });
    if (!whole)
      throw Error(ErrorKind::data, {.where = row.place,
                                    .what = "the annotation is of no known image or category, or has no box",
                                    .got = shown(each),
                                    .expected = "image_id, category_id and bbox: left, top, width, height"});
    row.file = files.at(image->as_int());
    row.kind = kinds.at(kind->as_int());
    for (size_t k = 0; k < 4; ++k) row.numbers[k] = box->as_array()[k].as_number() + (k >= 2 ? row.numbers[k - 2] : 0);
    check_objects_on_pictures(row);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

ObjectsOnPictures read_objects(const std::string& path, std::vector<std::string> classes) {
  const FileContent content = FileContent::open(path, kMaxObjectsOnPicturesBytes);
  return parse_objects(as_text(content.bytes()), path, std::move(classes));
}

ObjectsOnPictures parse_objects(std::string_view text, const std::string& path, std::vector<std::string> classes) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = first != text.npos && text[first] == '{';
  const std::vector<Row> rows = json ? coco_rows(json_records(text, path), path) : table_rows(text, path);
  if (classes.empty()) {
    for (const Row& row : rows) classes.push_back(row.kind);
    std::sort(classes.begin(), classes.end());
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  }
  if (classes.size() > kMostClasses)
    throw Error(
        ErrorKind::data,
        {.where = path, .what = "the boxes have too many classes", .got = std::to_string(classes.size()), .expected = "at most 65536"});
  std::map<std::string_view, size_t> numbers;
  for (size_t i = 0; i < classes.size(); ++i) numbers.emplace(classes[i], i);
  ObjectsOnPictures objects;
  for (const Row& row : rows) {
    const auto found = numbers.find(row.kind);
    if (found == numbers.end())
      throw Error(ErrorKind::data, {.where = row.place,
                                    .what = "the class of the box is none of the classes",
                                    .got = "'" + row.kind.substr(0, 60) + "'",
                                    .hint = nearest_hint(row.kind, classes)});
    std::vector<float>& boxes = objects.boxes[row.file];
    for (const double number : row.numbers) boxes.push_back(static_cast<float>(number));
    boxes.push_back(static_cast<float>(found->second));
  }
  objects.classes = std::move(classes);
  return objects;
}

}  // namespace perigee
