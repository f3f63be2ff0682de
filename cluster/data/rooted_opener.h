// Opens the data of another user's job on this machine, but only under one folder: an agent's --data-root.
#pragma once

#include <string>

#include "src/io/confined.h"
#include "src/train/trainer.h"

namespace perigee {

class RootedOpener final : public SourceOpener {
 public:
  explicit RootedOpener(std::string root);  // a folder, without symbolic links in it
  // The paths of a description are looked at when it is opened, so that a mistake is named; what is opened by them, then and later, is
  // confined to the root whatever becomes of the links on the way. Relative paths start from the root, whatever folder the job came from. Error(data) for a path that leads out of it, also by a
  // symbolic link.
  SourcePtr open(const std::string& part, const Config& description, const std::string& folder) override;
  std::string locate(const std::string& path, const std::string& where, const std::string& folder) override;

 private:
  std::string root_;
  ConfinedFolder confined_;
};

}  // namespace perigee
