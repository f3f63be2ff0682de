// Where the sentences of a text end, by rules: end marks, what may follow them, abbreviations, initials and numbers. Made for English, and good
// for other languages that end sentences alike; Chinese and Japanese marks need no blank behind them.
#pragma once

#include <string_view>
#include <vector>

namespace perigee {

// Views of `text`, without the blanks around each, in their order; nothing else is left out. An empty line ends a sentence too. What is not
// UTF-8 belongs to the sentence that it stands in.
std::vector<std::string_view> sentences_of(std::string_view text);

}  // namespace perigee
