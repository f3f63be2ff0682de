// The elements of an XML document as rows of CSV.
#pragma once

#include <string>
#include <string_view>

namespace perigee::tables {

// A header, and a line for each row: the elements called `part`, or those below the root where all have one name and something in them, else the root.
// Columns are elements that have only text, and attributes, by their paths (c.x); texts of several elements with one path stand with commas between
// them. Error(data) with the line: tags that do not match, entities of the document's own.
std::string csv_of_xml(std::string_view text, const std::string& part, const std::string& where);

}  // namespace perigee::tables
