// A shared library that is loaded when it is first needed, so that start-up does not pay for it and machines without it still work.
#pragma once

#include <initializer_list>
#include <string>

namespace perigee {

class Module {
 public:
  // `names` are tried in turn ("libcurl.so.4"). Error(resources) saying what it is for and which package has it.
  Module(std::initializer_list<const char*> names, const char* purpose, const char* package);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module() = default;  // stays loaded: its threads and exit handlers may outlive any one user

  // `target` is a function pointer of the right type. Error(resources) when the library lacks it.
  template <class F>
  void symbol(const char* name, F*& target) const {
    target = reinterpret_cast<F*>(address(name));
  }

 private:
  void* address(const char* name) const;

  void* handle_ = nullptr;
  std::string name_;
};

}  // namespace perigee
