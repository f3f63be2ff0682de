// Frames of recordings through the fast Fourier transform of sound_loops.h, kSoundLanes at a time: what the op `stft` and the transforms of
// src/data/sound/spectrum.h share. The caller has the memory.
#pragma once

#include <cstddef>

#include "kernels/ops/stft.h"
#include "kernels/sound_loops.h"

namespace perigee {

class SoundFrames {
 public:
  // fft is a power of two, at least 4. Writes the tables to `memory`, table_bytes() of it, on a border of 64 bytes.
  SoundFrames(const StftParams& params, const SoundLoops& loops, void* memory);
  static size_t table_bytes(const StftParams& params);

  // Numbers of scratch memory of `spectrum` and `power`; of `slopes`.
  static size_t scratch_floats(const StftParams& p) { return static_cast<size_t>((p.fft + p.window) * kSoundLanes); }
  static size_t slopes_floats(const StftParams& p) { return static_cast<size_t>(p.fft * kSoundLanes); }

  // Rows of kSoundLanes numbers, one of each frame from `first` on, of which there are `count`; columns behind those are copies of the last.
  // `from` has `there` numbers. power: a row for each bin, of power whatever params.power says. spectrum: two for each bin.
  void power(const float* from, int64_t there, int64_t first, int64_t count, float* scratch, float* rows) const;
  void spectrum(const float* from, int64_t there, int64_t first, int64_t count, float* scratch, float* rows) const;
  // Adds the slopes of the frames' numbers to those of the recording, given the slopes of the bins as `spectrum` has the bins.
  void slopes(const float* rows, int64_t there, int64_t first, int64_t count, float* scratch, float* to) const;

  // Where the frame's numbers lie: in the recording, or in `cut` where something is put around it or it is emphasised.
  const float* frame(const float* from, int64_t there, int64_t number, float* cut, float emphasis) const;

 private:
  void load(const float* from, int64_t there, int64_t first, int64_t count, float* z) const;

  StftParams p_;
  const SoundLoops& loops_;
  float *cosine_, *sine_, *taper_;
  int32_t* places_;  // number i of a frame is row places[i] of the transform's operand
};

}  // namespace perigee
