#include "src/vectors/files/pickle.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "src/core/error.h"

namespace perigee {
namespace {

// The operations of pickletools.py, by their bytes.
enum Op : uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kNone = 'N',
  kTrue = 0x88,
  kFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kBinFloat = 'G',
  kShortUnicode = 0x8c,
  kUnicode = 'X',
  kUnicode8 = 0x8d,
  kShortBytes = 'C',
  kBytes = 'B',
  kBytes8 = 0x8e,
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kFrozenSet = 0x91,
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kNewObj = 0x81,
  kReduce = 'R',
  kBuild = 'b',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kMemoize = 0x94,
  kFrame = 0x95,
  kProto = 0x80,
};

}  // namespace

class Pickle::Reader {
 public:
  Reader(Pickle& to, std::span<const std::byte> bytes, const std::string& where) : to_(to), bytes_(bytes), where_(where) {}

  void run() {
    while (!ended_) step(static_cast<uint8_t>(take(1)[0]));
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& got = "") const {
    throw Error(ErrorKind::data, {.where = where_ + ": byte " + std::to_string(op_at_), .what = what, .got = got});
  }
  std::string_view take(uint64_t count) {
    if (count == 1 && !inside_) op_at_ = at_;
    if (count > bytes_.size() - at_) fail("the pickle is cut short");
    const std::string_view taken(reinterpret_cast<const char*>(bytes_.data()) + at_, count);
    at_ += count;
    return taken;
  }
  // Little-endian.
  uint64_t number(size_t count) {
    uint64_t value = 0;
    const std::string_view digits = take(count);
    for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(digits[i]);
    return value;
  }
  std::string_view line() {
    const size_t begin = at_;
    while (take(1)[0] != '\n') {}
    return std::string_view(reinterpret_cast<const char*>(bytes_.data()) + begin, at_ - begin - 1);
  }

  void push(Node node) {
    stack_.push_back(static_cast<int32_t>(to_.nodes_.size()));
    to_.nodes_.push_back(std::move(node));
  }
  int32_t pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) fail("the pickle takes a value that is not there");
    const int32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  Node& top(Kind kind, const char* name) {
    if (stack_.empty() || to_.node(stack_.back()).kind != kind) fail(std::string("the pickle adds to what is no ") + name);
    return to_.nodes_[static_cast<size_t>(stack_.back())];
  }
  std::vector<int32_t> from_mark() {
    if (marks_.empty()) fail("the pickle has no mark where it needs one");
    std::vector<int32_t> values(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }
  void tuple(size_t count) {
    std::vector<int32_t> values(count);
    for (size_t i = count; i-- > 0;) values[i] = pop();
    push({.kind = Kind::tuple, .integer = 0, .real = 0, .text = {}, .children = std::move(values)});
  }
  void add(Kind kind, const char* name, std::vector<int32_t> values) {
    if (kind == Kind::dict && values.size() % 2 != 0) fail("the pickle has a key without a value");
    Node& to = top(kind, name);
    to.children.insert(to.children.end(), values.begin(), values.end());
  }
  void add_one(Kind kind, const char* name, size_t count) {
    std::vector<int32_t> values(count);
    for (size_t i = count; i-- > 0;) values[i] = pop();
    add(kind, name, std::move(values));
  }
  void integer(int64_t value) { push({.kind = Kind::integer, .integer = value, .real = 0, .text = {}, .children = {}}); }
  void text(Kind kind, uint64_t count) { push({.kind = kind, .integer = 0, .real = 0, .text = take(count), .children = {}}); }
  void name(std::string_view module, std::string_view of) {
    held_.push_back(std::make_unique<std::string>(std::string(module) + " " + std::string(of)));
    push({.kind = Kind::name, .integer = 0, .real = 0, .text = *held_.back(), .children = {}});
  }
  void object() {
    const int32_t arguments = pop(), called = pop();
    push({.kind = Kind::object, .integer = 0, .real = 0, .text = {}, .children = {called, arguments}});
  }
  void remember(uint64_t place) {
    if (stack_.empty() || place > bytes_.size()) fail("the pickle remembers what is not there");
    if (memo_.size() <= place) memo_.resize(place + 1, -1);
    memo_[place] = stack_.back();
  }
  void recall(uint64_t place) {
    if (place >= memo_.size() || memo_[place] < 0) fail("the pickle recalls what was not remembered", std::to_string(place));
    stack_.push_back(memo_[place]);
  }

  void step(uint8_t op) {
    inside_ = true;
    if (!value(op) && !container(op)) fail("the pickle has what no file of vectors has", "operation " + std::to_string(op));
    inside_ = false;
  }

  bool value(uint8_t op) {
    switch (op) {
      case kProto: {
        const uint64_t version = number(1);
        if (version < 2 || version > 5) fail("the pickle is of another protocol", std::to_string(version));
        return true;
      }
      case kFrame: number(8); return true;
      case kNone: push({}); return true;
      case kTrue:
      case kFalse: push({.kind = Kind::boolean, .integer = op == kTrue, .real = 0, .text = {}, .children = {}}); return true;
      case kBinInt: integer(static_cast<int32_t>(number(4))); return true;
      case kBinInt1: integer(static_cast<int64_t>(number(1))); return true;
      case kBinInt2: integer(static_cast<int64_t>(number(2))); return true;
      case kLong1: {
        const size_t count = number(1);
        if (count > 8) fail("the pickle has too large an integer");
        const auto bits = count == 0 ? 0 : static_cast<int64_t>(number(count) << (64 - 8 * count));
        integer(count == 0 ? 0 : bits >> (64 - 8 * count));
        return true;
      }
      case kBinFloat: {  // big-endian
        uint64_t bits = 0;
        for (const char byte : take(8)) bits = bits << 8 | static_cast<uint8_t>(byte);
        Node node{.kind = Kind::real, .integer = 0, .real = 0, .text = {}, .children = {}};
        std::memcpy(&node.real, &bits, sizeof bits);
        push(std::move(node));
        return true;
      }
      case kShortUnicode: text(Kind::text, number(1)); return true;
      case kUnicode: text(Kind::text, number(4)); return true;
      case kUnicode8: text(Kind::text, number(8)); return true;
      case kShortBytes: text(Kind::bytes, number(1)); return true;
      case kBytes: text(Kind::bytes, number(4)); return true;
      case kBytes8: text(Kind::bytes, number(8)); return true;
      default: return false;
    }
  }

  bool container(uint8_t op) {
    switch (op) {
      case kMark: marks_.push_back(stack_.size()); return true;
      case kPop: pop(); return true;
      case kEmptyList: push({.kind = Kind::list, .integer = 0, .real = 0, .text = {}, .children = {}}); return true;
      case kEmptyDict: push({.kind = Kind::dict, .integer = 0, .real = 0, .text = {}, .children = {}}); return true;
      case kEmptyTuple: tuple(0); return true;
      case kTuple1: tuple(1); return true;
      case kTuple2: tuple(2); return true;
      case kTuple3: tuple(3); return true;
      case kTuple:
      case kFrozenSet: {
        std::vector<int32_t> values = from_mark();
        push({.kind = Kind::tuple, .integer = 0, .real = 0, .text = {}, .children = std::move(values)});
        return true;
      }
      case kAppend: add_one(Kind::list, "list", 1); return true;
      case kSetItem: add_one(Kind::dict, "dict", 2); return true;
      case kAppends: add(Kind::list, "list", from_mark()); return true;
      case kSetItems: add(Kind::dict, "dict", from_mark()); return true;
      case kGlobal: {
        const std::string_view module = line();
        name(module, line());
        return true;
      }
      case kStackGlobal: {
        const Node &of = to_.node(pop()), &module = to_.node(pop());
        if (of.kind != Kind::text || module.kind != Kind::text) fail("the pickle names what is no name");
        name(module.text, of.text);
        return true;
      }
      case kNewObj:
      case kReduce: object(); return true;
      case kBuild: add_state(); return true;
      case kBinGet: recall(number(1)); return true;
      case kLongBinGet: recall(number(4)); return true;
      case kBinPut: remember(number(1)); return true;
      case kLongBinPut: remember(number(4)); return true;
      case kMemoize: remember(memoized_++); return true;
      case kStop:
        to_.root_ = pop();
        ended_ = true;
        to_.held_ = std::move(held_);
        return true;
      default: return false;
    }
  }

  void add_state() {
    const int32_t state = pop();
    Node& to = top(Kind::object, "object");
    if (to.children.size() == 2) to.children.push_back(state);
  }

  Pickle& to_;
  const std::span<const std::byte> bytes_;
  const std::string& where_;
  std::vector<std::unique_ptr<std::string>> held_;
  std::vector<int32_t> stack_, memo_;
  std::vector<size_t> marks_;
  size_t at_ = 0, op_at_ = 0;
  uint64_t memoized_ = 0;
  bool ended_ = false, inside_ = false;
};

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& where) {
  if (bytes.size() > INT32_MAX)
    throw Error(ErrorKind::resources, {.where = where,
                                       .what = "the pickle is too large",
                                       .got = std::to_string(bytes.size()) + " bytes",
                                       .expected = "at most 2 GiB; gensim keeps large vectors in a file beside it"});
  Reader(*this, bytes, where).run();
}

const Pickle::Node* Pickle::find(const Node& dict, std::string_view key) const {
  if (dict.kind != Kind::dict) return nullptr;
  for (size_t i = 0; i + 1 < dict.children.size(); i += 2)
    if (const Node& one = node(dict.children[i]); one.kind == Kind::text && one.text == key) return &node(dict.children[i + 1]);
  return nullptr;
}

const Pickle::Node* Pickle::state(const Node& object) const {
  return object.kind == Kind::object && object.children.size() == 3 ? &node(object.children[2]) : nullptr;
}

bool is_pickle(std::span<const std::byte> bytes) {
  return bytes.size() > 2 && bytes[0] == std::byte{kProto} && bytes[1] >= std::byte{2} && bytes[1] <= std::byte{5};
}

}  // namespace perigee
