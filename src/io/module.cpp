#include "src/io/module.h"

#include <dlfcn.h>

#include "src/core/error.h"

namespace perigee {

Module::Module(std::initializer_list<const char*> names, const char* purpose, const char* package) {
  std::string tried;
  for (const char* name : names) {
    handle_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    name_ = name;
    if (handle_ != nullptr) return;
    tried += (tried.empty() ? "" : ", ") + name_;
  }
  throw Error(ErrorKind::resources, {.where = tried,
                                     .what = std::string("this library is missing; it is needed for ") + purpose,
                                     .hint = std::string("apt install ") + package});
}

void* Module::address(const char* name) const {
  void* found = ::dlsym(handle_, name);
  if (found == nullptr) throw Error(ErrorKind::resources, {.where = name_, .what = std::string("the library lacks ") + name});
  return found;
}

}  // namespace perigee
