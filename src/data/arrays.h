// Examples from tensors in memory: what .npy and .npz files hold, what a script writes down, what an application hands over.
#pragma once

#include <string>
#include <vector>

#include "src/data/source.h"
#include "src/tensor/tensor.h"

namespace perigee {

struct NamedArray {
  std::string name;                      // of the field
  Tensor values;                         // [examples, ...]
  bool label = false;                    // class labels: integers, one per example
  int64_t classes = 0;                   // of labels; 0: the greatest and one
  std::vector<std::string> class_names;  // of labels; may be empty
  std::string where;                     // for errors: a file, a key
  FieldRole role = FieldRole::none;      // of the field
};

// An array as the field `name`: integers called "y", one per example, are class labels, whose options "classes" and "class_names" `config` has.
// So are those of each field that "class_names" has by name: {"y": ["no", "yes"], "size": 3}, its classes' names or their number (0: found out).
NamedArray named_array(const Config& config, const std::string& name, Tensor values, const std::string& where);

// Nested lists of numbers: f32, or for "y" with one integer per example i64. Error with the path in `config` when they are no array.
Tensor array_from_json(const Config& config, const std::string& key, const Json& list);

// u8 of rank 3 or 4 are images and read as f32 / 255; other integers and bool as they are; f64, f16 and bf16 as f32.
// Error(data) when they have not the same number of examples, or a label is out of range.
// `name` is what the description begins with; `fitted` and `remarks` are as in SourceTraits.
SourcePtr arrays_source(const std::string& name, std::vector<NamedArray> arrays, Json fitted = {}, Json remarks = {});
// The same, of arrays that named_array() has made by `config`. Error where "class_names" there has a field that they have not.
SourcePtr arrays_source(const Config& config, const std::string& name, std::vector<NamedArray> arrays);

// All sources of arrays have this option.
inline constexpr const char* kClassNamesDoc =
    "of the label: { \"no\", \"yes\" }; or of each field that is a label, names or the number of classes (0: found out): { y = { \"no\", "
    "\"yes\" }, size = 3 }";

// Sources that the embedding program or a script holds in memory: {"type": "arrays", "handle": name} opens them, in this process.
// Returns what was registered by that name before (null: nothing); a null source takes the name away. Any thread.
SourcePtr register_source(const std::string& handle, SourcePtr source);

}  // namespace perigee
