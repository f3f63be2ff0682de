// The opaque types of perigee.h that hold tensors and functions of them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "src/api/handles.h"
#include "src/eager/compiled.h"
#include "src/eager/recorder.h"

namespace perigee {

// Shared by a trace and the handles of its values.
struct Recording {
  std::mutex mutex;
  std::optional<Recorder> recorder;  // none once the trace has ended

  Recorder& open();  // with the mutex held; Error(usage) when it has ended
};

}  // namespace perigee

struct perigee_tensor {
  std::shared_ptr<const perigee::ContextState> context;
  mutable perigee::Message message;
  perigee::Array array;                           // of one that has numbers
  std::shared_ptr<perigee::Recording> recording;  // of a recorded value, else null
  int value = -1;                                 // its number in the recorder
  bool number = false;                            // takes the dtype of what it meets; an f64 scalar

  perigee::Type type() const;  // of a recorded value with the recording's mutex held
};

namespace perigee {

using Tensors = std::span<perigee_tensor* const>;

// Puts a new handle into *out, where out is not null.
void give_tensor(const std::shared_ptr<const ContextState>& context, Array array, perigee_tensor** out, bool number = false);
void give_value(const std::shared_ptr<const ContextState>& context, std::shared_ptr<Recording> recording, int value, bool number,
                perigee_tensor** out);
// Frees what was handed out before a later one failed.
void take_back(std::span<perigee_tensor*> outputs);

// The numbers of a tensor. Error(usage) for null and for recorded values.
const Array& numbers_of(const perigee_tensor* tensor, const char* function);
// Inputs as a span whose count was checked; entries may be null.
Tensors tensors_of(perigee_tensor* const* tensors, int32_t count, const char* function);

Dtype read_dtype(const perigee_dtype& dtype, const char* function);
perigee_dtype give_dtype(Dtype dtype);

// As a recorded operand: a value of `recorder`, captured where it has numbers. The recorder's mutex is held.
int value_in(Recording& recording, const perigee_tensor& tensor);

}  // namespace perigee
