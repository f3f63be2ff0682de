// Bytes typed at the prompt, in any pieces, with the window changing its size: the text stays valid UTF-8 with the cursor between two
// characters, pictures keep to the window, and what Lua makes of the text (colours, indentation, what is completed) keeps to its bounds.
#include "repl/editor/line_editor.h"

#include <algorithm>

#include "repl/console/lua_text.h"
#include "repl/editor/text.h"
#include "src/core/utf8.h"
#include "tests/fuzz/fuzz.h"

namespace perigee {
namespace {

class LuaLanguage : public Language {
 public:
  bool finished(const std::string& text) override { return lua_indentation(text) == 0; }
  Completion complete(const std::string& text, size_t cursor) override {
    const LuaContext context = lua_context(text, cursor);
    PERIGEE_FUZZ_CHECK(context.from <= cursor);
    return {context.from, {{"na\xC3\xAFve", "a note"}, {"na\xC3\xADl", ""}, {"\xE6\x97\xA5", ""}}};
  }
  std::vector<Colour> colours(std::string_view text) const override { return lua_colours(text); }
  size_t indentation(std::string_view text) const override { return lua_indentation(text); }
};

void check_utf8(const std::string& text, size_t cursor) {
  PERIGEE_FUZZ_CHECK(cursor <= text.size());
  bool border = cursor == text.size();
  for (size_t i = 0; i < text.size(); i += utf8_length(text, i)) {
    PERIGEE_FUZZ_CHECK(utf8_length(text, i) > 0);
    border |= i == cursor;
  }
  PERIGEE_FUZZ_CHECK(border);
}

void check_lua(const std::string& text) {
  size_t end = 0;
  for (const LuaToken& token : lua_tokens(text)) {
    PERIGEE_FUZZ_CHECK(token.begin >= end && token.end > token.begin && token.end <= text.size());
    end = token.end;
  }
  PERIGEE_FUZZ_CHECK(lua_colours(text).size() == text.size());
  PERIGEE_FUZZ_CHECK(lua_indentation(text) <= 40);
  PERIGEE_FUZZ_CHECK(without_outer_locals(text).size() <= 8 * text.size());
  PERIGEE_FUZZ_CHECK(lua_context(text, text.size() / 2).from <= text.size() / 2);
}

}  // namespace
}  // namespace perigee

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace perigee;
  LuaLanguage language;
  History history;
  LineEditor editor(language, history, {});
  FuzzInput input(data, size);
  const size_t piece = size_t{1} + input.byte() % 16;
  editor.resize(input.byte() % 90, input.byte() % 30);
  editor.begin();
  while (!input.empty()) {
    std::string bytes;
    while (bytes.size() < piece && !input.empty()) bytes += static_cast<char>(input.byte());
    editor.feed(bytes);
    for (Editor::Event event; (event = editor.next()) != Editor::Event::more;) {
      check_utf8(editor.line(), 0);
      editor.begin();
    }
    if (editor.undecided() && bytes[0] % 4 == 0) editor.expire();
    if (bytes[0] % 16 == 1) editor.resize(bytes[0] % 7, 3);
    editor.take_output();
    check_utf8(editor.text(), editor.cursor());
  }
  check_lua(editor.text());
  check_lua(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
