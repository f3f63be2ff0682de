// Documents that are trees (JSON that is no JSON Lines, YAML, XML) as lines, which the readers of JSON Lines and of CSV then take: an object or an element
// is a row, and what stands deeper in it is a column by its path: c.x.
#pragma once

#include <string>
#include <string_view>

namespace perigee::tables {

enum class DocumentKind : uint8_t { none, json, yaml, xml };

// By the first bytes, or for YAML by the name: .yaml, .yml.
DocumentKind kind_of_document(std::string_view head, std::string_view name);

// JSON Lines of JSON and YAML, CSV with a header of XML; a line for each row. `part` names what has the rows: a path of keys (data.rows), or the name of
// elements. Without it they are the objects of a list, or the elements below the root where all have one name; else the document is one row.
// Error(data) with the line or the path; of JSON and YAML with more than `most_values` too.
std::string lines_of_document(DocumentKind kind, std::string_view text, const std::string& part, const std::string& where,
                              size_t most_values);

// The encoding that an XML document names; empty for UTF-8 or none.
std::string encoding_of_xml(std::string_view head);

}  // namespace perigee::tables
