// Features of sound as layers: spectrogram, mel, mfcc. They have the options of the transforms of these names and give the same numbers, but run
// where the network runs, are a part of it, and let a gradient through to what is in front. Waveforms [N, channels, steps] become
// [N, channels * features, frames]; the frames that an example's steps give count.
#pragma once

#include <array>

#include "src/io/sound/features.h"
#include "src/nn/layer.h"

namespace perigee {

// All options of a layer stand in one list: those that stand behind it belong to every layer.
template <size_t... N>
constexpr auto joined_options(const Option (&... lists)[N]) {
  std::array<Option, (N + ...)> all;
  size_t at = 0;
  const auto add = [&](std::span<const Option> list) {
    for (const Option& option : list) all[at++] = option;
  };
  (add(lists), ...);
  return all;
}

inline constexpr Option kSoundRate[] = {{"rate", "number", nullptr, "steps a second", {1, 1e6}}};

std::vector<Value> build_sound(LayerContext& context, Value input, Feature feature);

}  // namespace perigee
