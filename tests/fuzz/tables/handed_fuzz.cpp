// Tables of other libraries by Arrow's C data interface: the bytes decide about formats, counts, offsets and what the buffers hold, and about what is
// damaged. Buffers whose sizes Arrow does not tell are as large as their lengths say, so that a reader which goes beyond them is found.
#include <algorithm>
#include <deque>
#include <initializer_list>
#include <tuple>
#include <vector>

#include "src/data/table/columnar/arrow/c_table.h"
#include "tests/fuzz/tables/table_reading.h"

namespace {

using namespace perigee;
using namespace perigee::tables;

constexpr const char* kFormats[] = {"n",   "b",   "c",   "C",       "s",   "S",  "i",  "I",    "l",     "L",        "e",
                                    "f",   "g",   "z",   "Z",       "vz",  "u",  "U",  "vu",   "d:9,2", "d:9,2,32", "w:3",
                                    "tdD", "tdm", "tts", "tsu:UTC", "tDn", "+l", "+L", "+w:2", "+s",    "+m",       "+r"};
constexpr int64_t kMostLength = 12, kText = 24;

template <class T>
void release(T* given) {
  given->release = nullptr;
}

class FuzzedTable {
 public:
  FuzzedTable(const uint8_t* data, size_t size) : input_(data, size) {}

  arrow::HandedTable table() {
    auto [schema, array] = node("+s", input_.byte() % kMostLength, 0);
    return {schema, array, "input"};
  }

 private:
  using Node = std::pair<ArrowSchema*, ArrowArray*>;

  std::vector<uint8_t>& memory(uint64_t bytes) {
    auto& made = memories_.emplace_back(bytes);
    for (uint8_t& each : made) each = input_.byte();
    return made;
  }

  // Places in memory of kText bytes, in order or not.
  template <class T>
  const void* ends(int64_t count, int64_t most) {
    auto& made = memory(static_cast<uint64_t>(count + 1) * sizeof(T));
    T before = 0;
    for (int64_t i = 0; i <= count; ++i) {
      const uint8_t step = input_.byte();
      before = step > 250 ? static_cast<T>(-3) : static_cast<T>(std::min<int64_t>(before + step % 4, most));
      std::memcpy(made.data() + static_cast<size_t>(i) * sizeof(T), &before, sizeof before);
    }
    return made.data();
  }

  static uint64_t bits_of(std::string_view format) {
    const auto is = [&](std::initializer_list<std::string_view> list) { return std::find(list.begin(), list.end(), format) != list.end(); };
    if (is({"b"})) return 1;
    if (is({"c", "C"})) return 8;
    if (is({"s", "S", "e"})) return 16;
    if (is({"w:3"})) return 24;
    if (is({"i", "I", "f", "d:9,2,32", "tdD", "tts"})) return 32;
    return is({"d:9,2"}) ? 128 : 64;
  }

  void fill(std::string_view format, int64_t elements, std::vector<const void*>& buffers) {
    const auto numbers = [&](uint64_t bits) { buffers.push_back(memory((static_cast<uint64_t>(elements) * bits + 7) / 8).data()); };
    if (format == "n" || format == "+r") return;
    buffers.push_back(input_.byte() % 3 == 0 ? memory(static_cast<uint64_t>(elements + 7) / 8).data() : nullptr);
    if (format[0] == 'v') {
      numbers(128);
      buffers.push_back(memory(kText).data());
      auto& sizes = memory(8);
      const int64_t size = kText;
      std::memcpy(sizes.data(), &size, sizeof size);
      buffers.push_back(sizes.data());
    } else if (format == "u" || format == "z" || format == "U" || format == "Z") {
      buffers.push_back(format == "u" || format == "z" ? ends<int32_t>(elements, kText) : ends<int64_t>(elements, kText));
      buffers.push_back(memory(kText).data());
    } else if (format == "+l" || format == "+L" || format == "+m") {
      buffers.push_back(format == "+L" ? ends<int64_t>(elements, kMostLength) : ends<int32_t>(elements, kMostLength));
    } else if (format[0] != '+') {
      numbers(bits_of(format));
    }
  }

  Node node(std::string_view format, int64_t length, int depth) {
    ArrowSchema& schema = schemas_.emplace_back();
    ArrowArray& array = arrays_.emplace_back();
    schema.format = texts_.emplace_back(format).c_str();
    schema.name = input_.byte() % 8 == 0 ? nullptr : "c";
    schema.release = release<ArrowSchema>, array.release = release<ArrowArray>;
    array.offset = input_.byte() % 5, array.length = length;
    array.null_count = input_.byte() % 2 == 0 ? -1 : 0;
    auto& buffers = buffers_.emplace_back();
    fill(format, array.offset + length, buffers);
    auto& child_schemas = schema_lists_.emplace_back();
    auto& child_arrays = array_lists_.emplace_back();
    const int64_t inside = format == "+w:2" ? 2 * (array.offset + length) : format == "+s" ? array.offset + length : kMostLength;
    const int children = format[0] != '+' || depth > 3 ? 0 : format == "+s" ? input_.byte() % 5 : 1;
    for (int i = 0; i < children; ++i) {
      const Node child = node(kFormats[input_.byte() % std::size(kFormats)], inside, depth + 1);
      child_schemas.push_back(child.first), child_arrays.push_back(child.second);
    }
    schema.n_children = array.n_children = children;
    schema.children = child_schemas.data(), array.children = child_arrays.data();
    if (depth > 0 && depth < 4 && std::string_view("cCsSiIlL").find(format) != std::string_view::npos && input_.byte() % 3 == 0)
      std::tie(schema.dictionary, array.dictionary) =
          node(kFormats[input_.byte() % std::size(kFormats)], input_.byte() % kMostLength, depth + 1);
    damage(schema, array, buffers);
    array.n_buffers += static_cast<int64_t>(buffers.size()), array.buffers = array.buffers == nullptr ? buffers.data() : nullptr;
    return {&schema, &array};
  }

  // Lengths and offsets only shrink: nobody could see that others are wrong.
  void damage(ArrowSchema& schema, ArrowArray& array, std::vector<const void*>& buffers) {
    switch (input_.byte()) {
      case 1: schema.format = nullptr; break;
      case 2: schema.format = texts_.emplace_back(std::string("?") + static_cast<char>(input_.byte())).c_str(); break;
      case 3: schema.release = nullptr; break;
      case 4: schema.n_children = static_cast<int8_t>(input_.byte()) % (schema.n_children + 1); break;
      case 5: schema.children = nullptr; break;
      case 6: array.release = nullptr; break;
      case 7: array.length = -1 - input_.byte(); break;
      case 8: array.length /= 2; break;
      case 9: array.offset = -1 - input_.byte(); break;
      case 10: array.n_buffers = -(input_.byte() % 3); break;
      case 11: array.n_children = -1; break;
      case 12: array.children = nullptr; break;
      case 13: array.null_count = static_cast<int8_t>(input_.byte()); break;
      case 14: array.dictionary = nullptr; break;
      case 15:
        if (!buffers.empty()) buffers[input_.byte() % buffers.size()] = nullptr;
        break;
      case 16: array.buffers = reinterpret_cast<const void**>(&array); break;  // null in the end
      case 17: array.length = INT64_MAX - input_.byte(); break;
      default: break;
    }
  }

  FuzzInput input_;
  std::deque<ArrowSchema> schemas_;
  std::deque<ArrowArray> arrays_;
  std::deque<std::string> texts_;
  std::deque<std::vector<uint8_t>> memories_;
  std::deque<std::vector<const void*>> buffers_;
  std::deque<std::vector<ArrowSchema*>> schema_lists_;
  std::deque<std::vector<ArrowArray*>> array_lists_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    FuzzedTable input(data, size);
    read_all(input.table());
  } catch (const Error&) {}
  return 0;
}
