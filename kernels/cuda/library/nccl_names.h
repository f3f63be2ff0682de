// Numbers of NCCL's interface, as nccl.h has them.
#pragma once

namespace perigee {

inline constexpr int kNcclSuccess = 0, kNcclInProgress = 7;
inline constexpr int kNcclInt64 = 4, kNcclFloat32 = 7, kNcclFloat64 = 8;
inline constexpr int kNcclSum = 0, kNcclMax = 2;

}  // namespace perigee
