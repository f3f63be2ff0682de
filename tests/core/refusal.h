// For tests of messages.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "src/core/error.h"

namespace perigee {

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// The text of the Error that `work` throws.
template <class Work>
std::string refusal(Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// The same, of an Error of this kind.
template <class Work>
std::string refusal(ErrorKind kind, Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "accepted";
}

}  // namespace perigee
