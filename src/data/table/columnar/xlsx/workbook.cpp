#include "src/data/table/columnar/xlsx/workbook.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include "src/core/error.h"
#include "src/data/table/columnar/xlsx/xml.h"

namespace perigee::tables::xlsx {
namespace {

// A format such as "yyyy-mm-dd" or "[h]:mm"; letters in quotes and in brackets are none.
bool is_date_format(const std::string& format) {
  for (size_t i = 0; i < format.size(); ++i) {
    const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(format[i])));
    if (c == '"') i = std::min(format.find('"', i + 1), format.size());
    else if (c == '[') {
      // [h], [mm] and the like are times; [Magenta] is a colour.
      const size_t end = std::min(format.find(']', i + 1), format.size());
      if (end > i + 1 && format.find_first_not_of("hHmMsS", i + 1) == end) return true;
      i = end;
    } else if (c == '\\' || c == '_' || c == '*') ++i;
    else if (c == 'y' || c == 'm' || c == 'd' || c == 'h' || c == 's') return true;
    else if (c == ';') return false;
  }
  return false;
}

bool is_date_number(int number) {
  return (number >= 14 && number <= 22) || (number >= 27 && number <= 36) || (number >= 45 && number <= 47) ||
         (number >= 50 && number <= 58);
}

}  // namespace

Workbook::Workbook(const std::string& name, std::span<const std::byte> content, const std::string& part)
    : where_(name), content_(content), entries_(zip_entries(content, name)), room_((uint64_t{12} << 20) + 24 * uint64_t{content.size()}) {
  const std::string path = sheet_path(part);
  read_styles(file("xl/styles.xml"));
  {
    const std::string shared = file("xl/sharedStrings.xml");
    if (shared.size() > room_) room_ = 0;
    else room_ -= shared.size();  // they are copied
    read_texts(shared);
  }
  sheet_ = file(path);
  if (sheet_.empty())
    throw Error(ErrorKind::data, {.where = where_,
                                  .what = "the workbook lacks the file of a sheet",
                                  .got = "'" + path.substr(0, 60) + "'",
                                  .hint = "save it again, or save it as CSV"});
}

std::string Workbook::file(std::string_view path) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const ZipEntry& entry) { return entry.name == path; });
  if (found == entries_.end()) return "";
  if (found->size > room_)
    throw Error(ErrorKind::data, {.where = where_ + ": " + found->name.substr(0, 60),
                                  .what = "the workbook is much larger than its file",
                                  .got = std::to_string(found->size >> 20) + " MiB",
                                  .expected = "at most " + std::to_string(room_ >> 20) + " MiB",
                                  .hint = "save it as CSV"});
  room_ -= found->size;
  return std::string(as_text(zip_content(content_, *found, where_ + ": " + found->name.substr(0, 60))));
}

// The workbook names its sheets; the file of each stands in the workbook's relations.
std::string Workbook::sheet_path(const std::string& part) {
  const std::string book = file("xl/workbook.xml"), relations = file("xl/_rels/workbook.xml.rels");
  if (book.empty())
    throw Error(ErrorKind::data,
                {.where = where_, .what = "the archive is no workbook: it lacks xl/workbook.xml", .hint = "save it as .xlsx, or as CSV"});
  std::map<std::string, std::string> targets;
  Tag tag;
  for (size_t at = 0; next_tag(relations, at, tag);)
    if (tag.name == "Relationship") targets[attribute(tag, "Id")] = attribute(tag, "Target");
  std::string names, id;
  bool found = false;
  for (size_t at = 0; next_tag(book, at, tag);) {
    if (tag.name == "workbookPr") since_1904_ = attribute(tag, "date1904") == "1" || attribute(tag, "date1904") == "true";
    if (tag.name != "sheet" || tag.closing) continue;
    const std::string name = attribute(tag, "name");
    if (names.size() < 1000) names += (names.empty() ? "'" : ", '") + name.substr(0, 60) + "'";
    if (!found && (part.empty() || part == name)) id = attribute(tag, "id"), found = true;
  }
  if (!found)
    throw Error(
        ErrorKind::data,
        {.where = where_, .what = "the workbook has no such sheet", .got = "'" + part.substr(0, 60) + "'", .expected = "one of " + names});
  std::string target = targets[id];
  if (target.starts_with('/')) return target.substr(1);
  return target.empty() ? "xl/worksheets/sheet1.xml" : "xl/" + target;
}

std::string_view Workbook::text(size_t number) const {
  const size_t begin = number == 0 ? 0 : ends_[number - 1];
  return std::string_view(texts_).substr(begin, ends_[number] - begin);
}

// An <si> has its text in <t>, or in several of them; readings beside it (<rPh>) do not count.
void Workbook::read_texts(std::string_view xml) {
  Tag tag;
  bool inside = false, aside = false;
  for (size_t at = 0, begin = 0; next_tag(xml, at, tag);) {
    if (tag.name == "si") {
      inside = !tag.closing && !tag.empty;
      if (!inside) ends_.push_back(texts_.size());
    } else if (tag.name == "rPh") {
      aside = !tag.closing && !tag.empty;
    } else if (tag.name == "t" && inside && !aside) {
      if (!tag.closing) begin = tag.end;
      else append_xml_text(xml.substr(begin, tag.begin - begin), texts_);
    }
  }
}

void Workbook::read_styles(std::string_view xml) {
  std::map<int, bool> formats;
  Tag tag;
  bool cells = false;
  for (size_t at = 0; next_tag(xml, at, tag);) {
    if (tag.name == "numFmt") formats[std::atoi(attribute(tag, "numFmtId").c_str())] = is_date_format(attribute(tag, "formatCode"));
    else if (tag.name == "cellXfs") cells = !tag.closing;
    else if (tag.name == "xf" && cells && !tag.closing) {
      const int number = std::atoi(attribute(tag, "numFmtId").c_str());
      const auto own = formats.find(number);
      dates_.push_back(own != formats.end() ? own->second : is_date_number(number));
    }
  }
}

}  // namespace perigee::tables::xlsx
