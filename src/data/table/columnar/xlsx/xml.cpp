#include "src/data/table/columnar/xlsx/xml.h"

#include <charconv>

#include "src/core/utf8.h"

namespace perigee::tables::xlsx {
namespace {

std::string_view without_prefix(std::string_view name) {
  const size_t colon = name.rfind(':');
  return colon == name.npos ? name : name.substr(colon + 1);
}

bool xml_is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// An entity without & and ;. False: it is none that is known.
bool append_entity(std::string_view name, std::string& out) {
  if (name == "lt") out += '<';
  else if (name == "gt") out += '>';
  else if (name == "amp") out += '&';
  else if (name == "quot") out += '"';
  else if (name == "apos") out += '\'';
  else if (name.starts_with('#') && name.size() > 1) {
    const bool hex = name[1] == 'x';
    uint32_t code = 0;
    const char* begin = name.data() + (hex ? 2 : 1);
    const auto result = std::from_chars(begin, name.data() + name.size(), code, hex ? 16 : 10);
    if (result.ec != std::errc() || result.ptr != name.data() + name.size()) return false;
    if (code < 0x110000) append_utf8(code, out);
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool next_tag(std::string_view xml, size_t& at, Tag& tag) {
  for (;;) {
    const size_t begin = xml.find('<', at);
    if (begin == xml.npos) return false;
    const std::string_view rest = xml.substr(begin);
    std::string_view close = ">";
    bool passed = true;
    if (rest.starts_with("<!--")) close = "-->";
    else if (rest.starts_with("<![CDATA[")) close = "]]>";
    else if (rest.starts_with("<?")) close = "?>";
    else if (!rest.starts_with("<!")) passed = false;
    size_t end = 1;
    if (passed) {
      end = rest.find(close);
    } else {  // a > in an attribute's value ends no tag
      for (char quote = 0; end < rest.size() && (quote != 0 || rest[end] != '>'); ++end) {
        if (quote != 0 && rest[end] == quote) quote = 0;
        else if (quote == 0 && (rest[end] == '"' || rest[end] == '\'')) quote = rest[end];
      }
      if (end == rest.size()) end = rest.npos;
    }
    if (end == rest.npos) return false;
    at = begin + end + close.size();
    if (passed) continue;
    std::string_view inside = rest.substr(1, end - 1);
    tag.begin = begin;
    tag.end = at;
    tag.closing = inside.starts_with('/');
    if (tag.closing) inside.remove_prefix(1);
    tag.empty = inside.ends_with('/');
    if (tag.empty) inside.remove_suffix(1);
    size_t name = 0;
    while (name < inside.size() && !xml_is_blank(inside[name])) ++name;
    tag.name = without_prefix(inside.substr(0, name));
    tag.attributes = inside.substr(name);
    return true;
  }
}

std::string attribute(const Tag& tag, std::string_view name) {
  std::string_view rest = tag.attributes;
  for (;;) {
    const size_t equals = rest.find('=');
    if (equals == rest.npos) return "";
    std::string_view key = rest.substr(0, equals);
    while (!key.empty() && xml_is_blank(key.front())) key.remove_prefix(1);
    while (!key.empty() && xml_is_blank(key.back())) key.remove_suffix(1);
    const size_t open = rest.find_first_of("\"'", equals);
    const size_t close = open == rest.npos ? rest.npos : rest.find(rest[open], open + 1);
    if (close == rest.npos) return "";
    if (without_prefix(key) == name) {
      std::string value;
      append_xml_text(rest.substr(open + 1, close - open - 1), value);
      return value;
    }
    rest.remove_prefix(close + 1);
  }
}

void append_xml_text(std::string_view raw, std::string& out) {
  while (!raw.empty()) {
    const size_t special = raw.find_first_of("&<");
    out += raw.substr(0, special);
    if (special == raw.npos) return;
    raw.remove_prefix(special);
    if (raw.starts_with("<![CDATA[")) {
      const size_t end = raw.find("]]>");
      out += raw.substr(9, end == raw.npos ? raw.npos : end - 9);
      raw.remove_prefix(end == raw.npos ? raw.size() : end + 3);
    } else if (raw[0] == '<') {  // a comment or an instruction between two parts of a text
      const std::string_view close = raw.starts_with("<!--") ? "-->" : raw.starts_with("<?") ? "?>" : ">";
      const size_t end = raw.find(close);
      raw.remove_prefix(end == raw.npos ? raw.size() : end + close.size());
    } else {
      const size_t end = raw.substr(0, 16).find(';');
      if (end != raw.npos && append_entity(raw.substr(1, end - 1), out)) raw.remove_prefix(end + 1);
      else out += '&', raw.remove_prefix(1);
    }
  }
}

}  // namespace perigee::tables::xlsx
