// Opening for reading what others may name, and only where it lies. Every file of the data goes through here (file.h).
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

namespace perigee {

// While it lives, no path that begins with `root` leads out of it, for any thread of this process: what a symbolic link on the way points
// to elsewhere cannot be opened, however late it was put there, because what counts is where the opened file lies. Paths that begin
// otherwise are not concerned.
class ConfinedFolder {
 public:
  explicit ConfinedFolder(std::string root);  // canonical: absolute, without symbolic links
  ~ConfinedFolder();
  ConfinedFolder(const ConfinedFolder&) = delete;
  ConfinedFolder& operator=(const ConfinedFolder&) = delete;

 private:
  std::string root_;
};

// As open(2) with O_CLOEXEC: -1 and errno; EXDEV when the path leads out of a ConfinedFolder.
int open_for_reading(const std::string& path, int flags);
// As stat(2), with the same restriction.
int stat_for_reading(const std::string& path, struct stat* info);

struct FolderEntry {
  std::string name;
  bool folder = false, file = false;  // also behind a symbolic link
};
// Sorted by name, without "." and "..". Error(data) when it cannot be read.
std::vector<FolderEntry> list_folder(const std::string& path);

// Several of them; those of a store are asked for at the same time.
std::vector<std::vector<FolderEntry>> list_folders(const std::vector<std::string>& paths);

// Text that names this content of this file: where it lies, its size, time and number; empty when it cannot be opened.
std::string file_identity(const std::string& path);

}  // namespace perigee
