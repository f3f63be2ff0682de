// Pages of ListObjectsV2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/io/store/store.h"

namespace perigee {

// Without its end a page is cut: a connection may end where the server told no length.
enum class S3Page { whole, cut, another };
S3Page s3_page(std::string_view xml);
// Names that would lead elsewhere, or that hold nothing, are left out.
void read_s3_page(std::string_view xml, const std::string& prefix, std::vector<StoredEntry>& entries);

}  // namespace perigee
