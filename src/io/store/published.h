// A local folder that is published in a store, so that readers see one whole state of it or an older one, whoever is killed when. Below the
// address lie
//   manifests/0000000012.json  the files of a state: their objects, sizes, hashes; each is created at the next number, or not at all
//   objects/…                  contents under names that are used once
//   latest.json                a pointer for people and tools; readers here trust only manifests
// A writer begins with a manifest of a new generation. Whoever finds its next number taken by a later generation has lost and stops: no stale
// writer can replace anything.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "src/core/json.h"

namespace perigee {

struct PublishedFile {
  std::string path, object, xxh3;  // path: below the folder; object: below objects/
  uint64_t bytes = 0;
};
struct PublishedState {
  int64_t sequence = 0, generation = 0;  // 0: there is none
  std::string writer;                    // a name that no other has: two manifests of equal files differ
  std::vector<PublishedFile> files;
};

// Error(usage) when something is published there.
void check_unpublished(const std::string& url);
// The newest state, each file checked, into a new folder. Where an object of it is damaged or gone, the state before it, with a warning.
// Error(data) when there is none.
PublishedState fetch_published(const std::string& url, const std::string& folder);

class PublishedFolder {
 public:
  // Takes the address for itself: earlier writers can publish nothing any more. `fresh`: Error(usage) when something is published there.
  PublishedFolder(std::string url, std::string folder, bool fresh);
  // The folder as it is now. Error(resources) when it cannot be written, Error(cluster) when a later writer has taken the address.
  void publish();
  // The same, and copies of `plain` files under their own names, for tools that read them from the store.
  void finish(const std::vector<std::string>& plain);
  int64_t generation() const { return newest_.generation; }

 private:
  struct Seen {
    int64_t time = 0;
    PublishedFile file;
  };
  void claim(bool fresh);
  bool create(const PublishedState& manifest);
  std::vector<PublishedFile> upload();
  void point();
  void remove_old();
  void sweep();
  void sweep_temporaries();
  [[noreturn]] void refuse_stale(const PublishedState& there) const;

  std::string url_, folder_, writer_;
  PublishedState newest_;
  std::deque<PublishedState> kept_;  // the newest states, whose objects stay
  std::map<std::string, Seen> seen_;
};

}  // namespace perigee
