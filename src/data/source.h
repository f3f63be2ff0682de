// Where examples come from. A source is immutable once open and is read by several threads at once; transforms, splits and
// concatenations are sources that hold others.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/core/config.h"
#include "src/core/field_role.h"
#include "src/tensor/shape.h"

namespace perigee {

// A field that lies on the picture Field::of, and goes along where a transform moves that.
enum class OnPicture : uint8_t {
  none,
  boxes,  // f32 [most, 5]: left, top, right, bottom in pixels, and the class; -1: no box is there
  mask    // i64 [height, width]: the class of each pixel
};

// One array of each example: "x", "y", or a name of the data's own.
struct Field {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;                           // of one example; a class label is a scalar i64
  int64_t classes = 0;                   // labels lie in [0, classes); 0: not a label
  std::vector<std::string> class_names;  // empty or `classes` of them; of a sequence of labels those of all that may occur
  // How it serves the field `of`; a weight without one is of all targets. A job may say more (data.lengths, data.masks, data.weights).
  FieldRole role = FieldRole::none;
  std::string of = {};
  OnPicture on_picture = OnPicture::none;
};

// Which example, and what its random draws depend on: the same whatever worker, thread, batch or resume.
struct ReadKey {
  int64_t index = 0;
  uint64_t epoch = 0;
  uint64_t seed = 0;
};

// Facts about a source that hold as long as it is open.
struct SourceTraits {
  std::string description;  // "mnist (60000 examples, /data/mnist)": for reports
  // The values fitted on the training part (means, vocabularies), to be stored with the model; null when there are none.
  Json fitted = {};
  bool cheap = false;    // reading costs little more than copying: the trainer's own threads then read, and no loader thread is started
  bool fixed = false;    // an example has the same bytes in every epoch, so that a copy of all may stand in for the source
  bool live = false;     // examples appear while the program runs, one after the other: none is read before it is trained on
  bool touches = false;  // expect() of one example asks for its memory and does nothing else: worth a call shortly before each read
  // For a source that fetches its examples from far: how many it must know of before they are read. 0: none.
  int64_t read_ahead = 0;
  // Counts of what a table has and the training part had not (remark_lines of table_source.h tells them); null when there is nothing to tell.
  Json remarks = {};
};

class DataSource {
 public:
  virtual ~DataSource() = default;
  virtual int64_t size() const = 0;  // examples in one epoch
  virtual const std::vector<Field>& fields() const = 0;
  // Writes each field of one example, row-major, to slots[i]. Thread-safe, allocates nothing in the steady state.
  // Error(data) naming file and record when the data turn out to be damaged.
  virtual void read(const ReadKey& key, std::span<std::byte* const> slots) const = 0;
  // These will be read soon, in this order, as far as is known now. Returns at once; thread-safe. Called if the traits ask for it.
  virtual void expect(std::span<const ReadKey> /*keys*/) const {}
  virtual SourceTraits traits() const = 0;
};

using SourcePtr = std::shared_ptr<const DataSource>;

struct SourceDef {
  const char* type = nullptr;  // "mnist"
  const char* doc = nullptr;
  Schema schema = {};
  // Opens the source that `config` describes, which the schema has checked. `folder` is what relative paths start from.
  SourcePtr (*open)(const Config& config, const std::string& folder) = nullptr;
  bool two_parts = false;  // option "part": "train" or "test"; a script that names none gets both
  bool wraps = false;      // it chooses among or changes the examples of other sources, and reads no data itself
};

// Opens {"type": "mnist", ...} or a chain {"type": "map", "source": {...}, "transforms": [...]}. Error(data) when it cannot.
SourcePtr open_source(const Config& config, const std::string& folder);

// While it lives, the sources which read data themselves (not SourceDef::wraps) are opened on this thread by `open` instead of by their
// definition; what stands around them is built as ever. Scopes nest and the innermost counts; with an empty function all is as usual.
class LeafScope {
 public:
  using Open = std::function<SourcePtr(const Config& description, const std::string& folder)>;
  explicit LeafScope(Open open);
  ~LeafScope();
  LeafScope(const LeafScope&) = delete;
  LeafScope& operator=(const LeafScope&) = delete;

 private:
  Open open_;
  const Open* outer_;
};

// The description of another part of the same data, with what fitted() of the training part says put in: its test part is then
// standardised with the training part's means, and its words have the training part's numbers.
Json with_fitted(const Json& source, const Json& fitted);

}  // namespace perigee
