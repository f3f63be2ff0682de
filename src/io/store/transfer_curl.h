// The functions of libcurl that transfers call; the library is loaded on first use.
#pragma once

#include <curl/curl.h>

#include "src/io/module.h"

namespace perigee {

struct CurlLibrary {
  CurlLibrary();
  Module module;
  CURLcode (*global_init)(long);
  CURL* (*init)();
  CURLcode (*setopt)(CURL*, CURLoption, ...);
  CURLcode (*getinfo)(CURL*, CURLINFO, ...);
  void (*cleanup)(CURL*);
  void (*reset)(CURL*);
  const char* (*strerror)(CURLcode);
  curl_slist* (*append)(curl_slist*, const char*);
  void (*free_all)(curl_slist*);
  CURLM* (*multi_init)();
  CURLMcode (*add)(CURLM*, CURL*);
  CURLMcode (*remove)(CURLM*, CURL*);
  CURLMcode (*multi_perform)(CURLM*, int*);
  CURLMcode (*poll)(CURLM*, curl_waitfd*, unsigned, int, int*);
  CURLMcode (*wakeup)(CURLM*);
  CURLMsg* (*info_read)(CURLM*, int*);
  CURLMcode (*multi_cleanup)(CURLM*);
  CURLMcode (*multi_setopt)(CURLM*, CURLMoption, ...);
};
// Error(resources) when it is missing.
const CurlLibrary& curl();

}  // namespace perigee
