// Which sanitizers this is compiled with: GCC says so by macros, clang by features.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define PERIGEE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PERIGEE_ASAN 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define PERIGEE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PERIGEE_TSAN 1
#endif
#endif
