// Tags of an XML document one after the other, as the files of a workbook need them: no tree, no entities but the usual ones, no DTD.
#pragma once

#include <string>
#include <string_view>

namespace perigee::tables::xlsx {

struct Tag {
  std::string_view name, attributes;  // the name without its prefix
  bool closing = false, empty = false;
  size_t begin = 0, end = 0;  // in the document
};

// The next tag from `at`, which goes behind it; comments and instructions are passed over. False: there is none.
bool next_tag(std::string_view xml, size_t& at, Tag& tag);
// The value of an attribute, decoded; empty where it is not there. `name` has no prefix.
std::string attribute(const Tag& tag, std::string_view name);
// Appends what `raw`, the text between two tags, means.
void append_xml_text(std::string_view raw, std::string& out);

}  // namespace perigee::tables::xlsx
