// The advice of errors about a file that contradicts itself: no option helps, other bytes do.
#pragma once

namespace perigee {

inline constexpr const char* kGetAnew = "the file is damaged or not whole: copy it again, or write it anew";

}  // namespace perigee
