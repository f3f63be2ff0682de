// Where a cursor may stand in UTF-8 text, and how wide characters are on a terminal.
#pragma once

#include <cstddef>
#include <string_view>

namespace perigee {

// Columns: 0 for marks that combine with the character before them, 2 for wide ones (East Asian, emoji).
int column_width(char32_t code);
size_t text_columns(std::string_view text);

// Borders of characters with the marks that belong to them. `text` is valid UTF-8.
size_t next_character(std::string_view text, size_t at);
size_t previous_character(std::string_view text, size_t at);
// Borders of words: letters, digits, underscores and all that is not ASCII.
size_t next_word(std::string_view text, size_t at);
size_t previous_word(std::string_view text, size_t at);
size_t line_begin(std::string_view text, size_t at);
size_t line_end(std::string_view text, size_t at);
// The place in the line that begins at `begin` which is `column` columns from it, or the line's end.
size_t at_column(std::string_view text, size_t begin, size_t column);

}  // namespace perigee
