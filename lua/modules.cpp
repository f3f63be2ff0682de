#include "lua/modules.h"

#include "src/io/codec/compress.h"

namespace perigee {

std::string LuaModule::text() const {
  const Bytes bytes = inflate_raw(std::as_bytes(packed), name, size);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace perigee
