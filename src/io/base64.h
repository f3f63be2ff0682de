// Base64 (RFC 4648), with padding.
#pragma once

#include <string>
#include <string_view>

namespace perigee {

std::string base64(std::string_view bytes);
// Error(data) with `where` for what is not base64.
std::string from_base64(std::string_view text, const std::string& where);

}  // namespace perigee
