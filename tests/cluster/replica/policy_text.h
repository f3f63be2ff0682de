// Policies from JSON text, and what is said of those that are refused.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cluster/policy/policy.h"
#include "src/core/error.h"

namespace perigee {

inline Policy policy_of(const std::string& text) {
  const Json json = Json::parse(text, "test");
  return read_policy(&json, "job.json");
}

// Empty: it was not refused.
inline std::string refusal_of(const std::string& text) {
  try {
    policy_of(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::model);
    return error.what();
  }
  return "";
}

}  // namespace perigee
