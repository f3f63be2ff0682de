#include "cluster/simulator/blank_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "kernels/round_up.h"
#include "src/core/error.h"

namespace perigee::sim {
namespace {

constexpr size_t kPiece = size_t{64} << 10, kMostPieces = 4096;  // a process may have 65530 mappings

}  // namespace

BlankMemory::BlankMemory(size_t bytes) : size_(bytes) {
  const size_t piece = round_up(std::max(kPiece, bytes / kMostPieces), kPiece);
  mapped_ = round_up(std::max(bytes, size_t{1}), piece);
  const int file = memfd_create("perigee-blank", MFD_CLOEXEC);
  void* base = file < 0 || ftruncate(file, static_cast<off_t>(piece)) != 0
                   ? MAP_FAILED
                   : mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  bool good = base != MAP_FAILED;
  for (size_t at = 0; good && at < mapped_; at += piece)
    good = mmap(static_cast<std::byte*>(base) + at, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  if (file >= 0) close(file);
  if (!good && base != MAP_FAILED) munmap(base, mapped_);
  if (!good)
    throw Error(ErrorKind::resources, {"simulate", "there is no address space for a block of " + std::to_string(bytes) + " bytes"});
  base_ = static_cast<std::byte*>(base);
}

BlankMemory::~BlankMemory() { munmap(base_, mapped_); }

}  // namespace perigee::sim
