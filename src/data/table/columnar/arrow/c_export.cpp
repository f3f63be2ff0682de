#include "src/data/table/columnar/arrow/c_export.h"

#include <cerrno>
#include <new>

namespace perigee::tables::arrow {
namespace {

using NodePtr = std::shared_ptr<const ExportNode>;

// A structure that was given away points to this; its `release` is the end of it.
template <class T>
struct Exported {
  NodePtr root;  // keeps names and buffers
  std::vector<T> children;
  std::vector<T*> pointers;
  T dictionary{};
};

template <class T>
void release_exported(T* given) {
  const std::unique_ptr<Exported<T>> held(static_cast<Exported<T>*>(given->private_data));
  for (T& child : held->children)
    if (child.release != nullptr) child.release(&child);  // unless the other program has moved it
  if (held->dictionary.release != nullptr) held->dictionary.release(&held->dictionary);
  given->release = nullptr;
}

void describe(const ExportNode& node, ArrowSchema& out) {
  out.format = node.format.c_str();
  out.name = node.name.c_str();
  out.n_children = static_cast<int64_t>(node.children.size());
}

void describe(const ExportNode& node, ArrowArray& out) {
  out.length = node.length;
  out.n_buffers = static_cast<int64_t>(node.buffers.size());
  out.buffers = const_cast<const void**>(node.buffers.data());  // the other program reads them alone
  out.n_children = static_cast<int64_t>(node.children.size());
}

template <class T>
void give_node(const NodePtr& root, const ExportNode& node, T* out) {
  auto held = std::make_unique<Exported<T>>();
  held->root = root;
  held->children.resize(node.children.size());
  for (size_t i = 0; i < node.children.size(); ++i) {
    give_node(root, node.children[i], &held->children[i]);
    held->pointers.push_back(&held->children[i]);
  }
  T made{};
  describe(node, made);
  made.children = held->pointers.data();
  if (node.dictionary != nullptr) {
    give_node(root, *node.dictionary, &held->dictionary);
    made.dictionary = &held->dictionary;
  }
  made.release = release_exported<T>;
  made.private_data = held.release();
  *out = made;
}

struct OneBatch {
  NodePtr batch;
  bool given = false;
};

OneBatch& one_batch(ArrowArrayStream* stream) { return *static_cast<OneBatch*>(stream->private_data); }

int batch_schema(ArrowArrayStream* stream, ArrowSchema* out) {
  try {
    give_node(one_batch(stream).batch, *one_batch(stream).batch, out);
    return 0;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

int batch_next(ArrowArrayStream* stream, ArrowArray* out) {
  *out = {};
  if (one_batch(stream).given) return 0;
  try {
    give_node(one_batch(stream).batch, *one_batch(stream).batch, out);
    one_batch(stream).given = true;
    return 0;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

const char* batch_error(ArrowArrayStream*) { return "not enough memory"; }

void batch_release(ArrowArrayStream* stream) {
  const std::unique_ptr<OneBatch> held(static_cast<OneBatch*>(stream->private_data));
  stream->release = nullptr;
}

}  // namespace

void give_stream(std::shared_ptr<const ExportNode> batch, ArrowArrayStream* out) {
  auto held = std::make_unique<OneBatch>(OneBatch{.batch = std::move(batch)});
  *out = {.get_schema = batch_schema,
          .get_next = batch_next,
          .get_last_error = batch_error,
          .release = batch_release,
          .private_data = held.release()};
}

}  // namespace perigee::tables::arrow
