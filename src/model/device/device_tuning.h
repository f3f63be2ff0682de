// Which CUDA kernel runs each step of a plan, and which of a library's algorithms: measured on the device and the real operands, kept in
// the tuning table of the device (src/graph/tuning.h). Without a measurement the first kernel that takes a call runs it.
#pragma once

#include "src/device/gpu.h"
#include "src/graph/tuning.h"

namespace perigee {

// `tuning` becomes the table of this device: its model, the driver, the libraries' versions, and what the queue lets them do.
void use_device(Tuning& tuning, const Gpu& gpu, const CudaQueue& queue);

// Says, once in a process, which library is not there that the plan's steps would use: they run on kernels of ours, which may take many times
// as long.
void warn_of_missing_libraries(const Gpu& gpu, const Plan& plan);

// Measurements on a GPU of this machine, for workers on GPUs of its kind: they measure nothing, since all have to choose alike. Empty
// where there is none, or nothing was measured. Takes nothing of the GPU.
Json measured_on_device(int device, bool tf32);

struct DeviceTuned {
  int measured = 0;  // choices that the table lacked
  int changed = 0;   // steps for which the table now says something else than the plan has: it has to be compiled again
};

// Runs the bound plan once, step by step, with what `step` points to on the device. With `measure`, kernels and algorithms of a step that the
// table does not know are timed, and the fastest goes into the table. A step whose kernel a library refuses to run goes to the next kernel
// that runs it, with a warning, measured or not. Error(resources) where none does. The arena and external outputs do not keep their values.
DeviceTuned tune_on_device(Gpu& gpu, PlanRun& run, const StepInfo* step, bool measure, Tuning& tuning);

}  // namespace perigee
