// Python's pickles as trees of values. Nothing in them is carried out: a call, or an object, is a node with the name of what it would call and
// its arguments. Protocols 2 to 5 without what no file of vectors has (sets, buffers, persistent names).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perigee {

class Pickle {
 public:
  enum class Kind : uint8_t { none, boolean, integer, real, text, bytes, list, dict, tuple, name, object };
  struct Node {
    Kind kind = Kind::none;
    int64_t integer = 0;  // also 0 or 1 of a boolean
    double real = 0;
    std::string_view text;  // also bytes; of a name "module name"
    std::vector<int32_t>
        children;  // a dict: keys and values in turn; an object: what is called, its arguments, and a state where it has one
  };

  // `bytes` must outlive this. Error(data) naming the byte.
  Pickle(std::span<const std::byte> bytes, const std::string& where);

  const Node& root() const { return nodes_[static_cast<size_t>(root_)]; }
  const Node& node(int32_t number) const { return nodes_[static_cast<size_t>(number)]; }
  // The value of a key of a dict; null: there is none, or it is no dict.
  const Node* find(const Node& dict, std::string_view key) const;
  // The state that an object was built with; null: none.
  const Node* state(const Node& object) const;

 private:
  class Reader;
  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<std::string>> held_;  // texts of names, which are joined
  int32_t root_ = 0;
};

bool is_pickle(std::span<const std::byte> bytes);  // by its first bytes

}  // namespace perigee
