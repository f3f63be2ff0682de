// The numbers that stand for NCCL's header are its own.
#include "kernels/cuda/library/nccl_names.h"

#include <nccl.h>

using namespace perigee;
static_assert(kNcclSuccess == ncclSuccess && kNcclInProgress == ncclInProgress);
static_assert(kNcclInt64 == ncclInt64 && kNcclFloat32 == ncclFloat32 && kNcclFloat64 == ncclFloat64);
static_assert(kNcclSum == ncclSum && kNcclMax == ncclMax);
// Functions that are called through pointers of these types (kernels/cuda/library/nccl_group.cpp): handles are pointers, enumerations are ints.
static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclComm_t) == sizeof(void*) && sizeof(cudaStream_t) == sizeof(void*));
ncclResult_t (*const init_all)(ncclComm_t*, int, const int*) = ncclCommInitAll;
ncclResult_t (*const all_reduce)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t) = ncclAllReduce;
