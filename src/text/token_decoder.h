// The last step of a tokenizer: tokens become text again, as "decoder" of a tokenizer.json says.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/core/config.h"

namespace perigee {

// Each step changes the list; what is left is joined.
using TokenDecoder = std::vector<std::function<void(std::vector<std::string>& tokens)>>;

// Error(data) for a type that is not known.
TokenDecoder read_decoder(const Json* description, const std::string& where);

// Bytes as text: what is no UTF-8 becomes U+FFFD, one for each part of a character that was begun or one for each byte.
std::string readable(std::string_view bytes, bool each_byte);

// The byte of "<0x41>"; -1: it is another token.
int byte_of_token(std::string_view token);

}  // namespace perigee
