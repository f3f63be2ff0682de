#include "src/vectors/files/keyed_vectors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/convert.h"
#include "src/core/error.h"
#include "src/core/warning.h"
#include "src/io/codec/compress.h"
#include "src/io/file.h"
#include "src/io/npy.h"
#include "src/io/parts_file.h"
#include "src/tensor/shape.h"
#include "src/vectors/files/pickle.h"

namespace perigee {
namespace {

Tensor cast(const Tensor& from, Dtype dtype) {
  Tensor to(dtype, from.shape());
  convert(from.dtype(), from.view().data, dtype, to.view().data, from.elements());
  return to;
}

using Node = Pickle::Node;
using Kind = Pickle::Kind;

constexpr uint64_t kMaxKeyedVectorsBytes = uint64_t{1} << 40;

[[noreturn]] void fail_keyed_vectors(const std::string& where, std::string what, std::string got = "") {
  throw Error(ErrorKind::data,
              {.where = where, .what = std::move(what), .got = std::move(got), .expected = "KeyedVectors as gensim 4 saves them"});
}

// An array in a pickle is numpy's _reconstruct with a state (version, shape, type, columns first, bytes): its file is made of that and read.
Tensor array_of(const Pickle& pickle, const Node& array, const std::string& where) {
  const Node* const state = pickle.state(array);
  if (!state || state->kind != Kind::tuple || state->children.size() != 5)
    fail_keyed_vectors(where, "the file has no array where one should be");
  const Node &shape = pickle.node(state->children[1]), &type = pickle.node(state->children[2]), &columns = pickle.node(state->children[3]),
             &bytes = pickle.node(state->children[4]);
  const Node* const order = pickle.state(type);
  const Node* const called = type.kind == Kind::object ? &pickle.node(type.children[1]) : nullptr;
  if (shape.kind != Kind::tuple || bytes.kind != Kind::bytes || !called || called->children.empty() || !order || order->children.size() < 2)
    fail_keyed_vectors(where, "the file has an array of another make");
  std::string dims;
  for (const int32_t dim : shape.children) dims += std::to_string(pickle.node(dim).integer) + ", ";
  const std::string head = "{'descr': '" + std::string(pickle.node(order->children[1]).text) +
                           std::string(pickle.node(called->children[0]).text) +
                           "', 'fortran_order': " + (columns.integer != 0 ? "True" : "False") + ", 'shape': (" + dims + "), }\n";
  if (head.size() > 1000) fail_keyed_vectors(where, "the file has an array of another make");
  std::string file("\x93NUMPY\x01\x00", 8);
  file.push_back(static_cast<char>(head.size() & 0xFF)), file.push_back(static_cast<char>(head.size() >> 8));
  file += head;
  file += bytes.text;
  return parse_npy(as_bytes(file), where);
}

Tensor vectors_of(const Pickle& pickle, const Node& state, const std::string& where) {
  const Node* const inside = pickle.find(state, "vectors");
  if (inside && inside->kind == Kind::object) return array_of(pickle, *inside, where);
  const std::string beside = where + ".vectors.npy";
  if (!file_exists(beside))
    throw Error(ErrorKind::data, {.where = where,
                                  .what = "the vectors are in a file of their own, which is not there",
                                  .expected = beside,
                                  .hint = "gensim writes both: keep them together"});
  return parse_npy(FileContent::open(beside, kMaxKeyedVectorsBytes).bytes(), beside);
}

// How often each word came; none where the file does not tell. gensim writes an array, and write_keyed_vectors() the call of numpy.array that
// makes one.
std::vector<int64_t> counts_of(const Pickle& pickle, const Node& state, const std::string& where) {
  const Node* const more = pickle.find(state, "expandos");
  const Node* const found = more ? pickle.find(*more, "count") : nullptr;
  if (!found || found->kind != Kind::object) return {};
  std::vector<int64_t> counts;
  if (pickle.state(*found)) {
    const Tensor array = cast(array_of(pickle, *found, where), Dtype::i64);
    counts.assign(array.data<int64_t>(), array.data<int64_t>() + array.elements());
  } else if (const Node& given = pickle.node(found->children[1]); !given.children.empty()) {
    for (const int32_t count : pickle.node(given.children[0]).children) counts.push_back(pickle.node(count).integer);
  }
  return counts;
}

std::string name_of(const Node& key, const std::string& where) {
  if (key.kind == Kind::integer) return std::to_string(key.integer);
  if (key.kind != Kind::text) fail_keyed_vectors(where, "a word is no text");
  return std::string(key.text);
}

// A pickle of protocol 4, as far as KeyedVectors need it.
class PickleWriter {
 public:
  void raw(std::string_view bytes) { text_.append(bytes); }
  void text(std::string_view value) {
    raw("X");
    number(value.size(), 4);
    raw(value);
  }
  void integer(int64_t value) {
    raw(std::string_view("\x8a\x08", 2));
    number(static_cast<uint64_t>(value), 8);
  }
  void name(std::string_view module, std::string_view of) { raw("c"), raw(module), raw("\n"), raw(of), raw("\n"); }
  void empty_list(std::string_view key) { text(key), raw("]"); }
  const std::string& bytes() const { return text_; }

 private:
  void number(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) text_.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  }
  std::string text_ = std::string("\x80\x04", 2);
};

}  // namespace

WordVectors parse_keyed_vectors(std::span<const std::byte> bytes, const std::string& where) {
  const Pickle pickle(bytes, where);
  const Node* const state = pickle.state(pickle.root());
  const Node* const words = state ? pickle.find(*state, "index_to_key") : nullptr;
  if (!words || words->kind != Kind::list) {
    const bool whole = state && pickle.find(*state, "wv");
    throw Error(ErrorKind::data, {.where = where,
                                  .what = whole ? "the file is a whole model of gensim" : "the pickle has no words",
                                  .expected = "KeyedVectors as gensim 4 saves them",
                                  .hint = whole ? "save its vectors: model.wv.save(\"words.kv\")" : ""});
  }
  const Tensor values = cast(vectors_of(pickle, *state, where), Dtype::f32);
  if (values.shape().rank() != 2 || values.shape()[0] < static_cast<int64_t>(words->children.size()) || values.shape()[1] < 1 ||
      words->children.empty())
    fail_keyed_vectors(where, "words and vectors do not go together",
                       std::to_string(words->children.size()) + " words, vectors " + values.shape().text());
  const std::vector<int64_t> counts = counts_of(pickle, *state, where);
  const int64_t size = values.shape()[1];
  ElementTable names;
  VectorRows rows(static_cast<int64_t>(words->children.size()), size);
  int64_t again = 0;
  for (size_t i = 0; i < words->children.size(); ++i) {
    const std::string name = name_of(pickle.node(words->children[i]), where);
    if (names.find(name) >= 0) {
      ++again;
      continue;
    }
    const float* const from = values.data<float>() + static_cast<int64_t>(i) * size;
    if (!std::all_of(from, from + size, [](float value) { return std::isfinite(value); }))
      fail_keyed_vectors(where, "a vector has a number that is not finite", "that of '" + name + "'");
    std::copy_n(from, size, rows.row(names.size()));
    names.add(name, i < counts.size() ? std::max<int64_t>(0, counts[i]) : 0);
  }
  if (again > 0) warn(where + ": " + std::to_string(again) + " vectors are left out, because their names were there before");
  const int64_t count = names.size();
  return WordVectors(std::move(names), rows.slice(0, count));
}

void write_keyed_vectors(const std::string& path, const WordVectors& vectors) {
  const int64_t count = vectors.size();
  PickleWriter out;
  out.name("gensim.models.keyedvectors", "KeyedVectors");
  out.raw(std::string_view(")\x81}(", 4));
  out.text("vector_size"), out.integer(vectors.numbers());
  out.empty_list("index_to_key"), out.raw("(");
  for (int64_t i = 0; i < count; ++i) out.text(vectors.names().name(i));
  out.raw("e");
  out.text("key_to_index"), out.raw("}(");
  for (int64_t i = 0; i < count; ++i) out.text(vectors.names().name(i)), out.integer(i);
  out.raw("u");
  out.text("next_index"), out.integer(count);
  out.text("norms"), out.raw("N");
  out.text("mapfile_path"), out.raw("N");
  out.text("expandos"), out.raw("}"), out.text("count"), out.name("numpy", "array"), out.raw("](");
  for (int64_t i = 0; i < count; ++i) out.integer(vectors.names().count(i));
  out.raw("e"), out.text("<i8"), out.raw(std::string_view("\x86Rs", 3));
  out.empty_list("__numpys"), out.text("vectors"), out.raw("a");
  for (const char* none : {"__scipys", "__ignoreds", "__recursive_saveloads"}) out.empty_list(none);
  out.raw("ub.");
  const int64_t size = vectors.numbers();
  int64_t row = -1;
  write_file_in_parts(path + ".vectors.npy", [&](std::string& part) {
    if (row < 0) part = npy_head({Dtype::f32, Shape{count, size}}), row = 0;
    for (; row < count && part.size() < size_t{1} << 20; ++row)
      part.append(reinterpret_cast<const char*>(vectors.rows().row(row)), static_cast<size_t>(size) * sizeof(float));
    return row < count;
  });
  write_file(path, as_bytes(out.bytes()));
}

}  // namespace perigee
