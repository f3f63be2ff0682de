#include "src/io/store/transfer_curl.h"

namespace perigee {

CurlLibrary::CurlLibrary() : module({"libcurl.so.4", "libcurl-gnutls.so.4"}, "s3://, hdfs://, https:// and sftp://", "libcurl4") {
  module.symbol("curl_global_init", global_init);
  module.symbol("curl_easy_init", init);
  module.symbol("curl_easy_setopt", setopt);
  module.symbol("curl_easy_getinfo", getinfo);
  module.symbol("curl_easy_cleanup", cleanup);
  module.symbol("curl_easy_reset", reset);
  module.symbol("curl_easy_strerror", strerror);
  module.symbol("curl_slist_append", append);
  module.symbol("curl_slist_free_all", free_all);
  module.symbol("curl_multi_init", multi_init);
  module.symbol("curl_multi_add_handle", add);
  module.symbol("curl_multi_remove_handle", remove);
  module.symbol("curl_multi_perform", multi_perform);
  module.symbol("curl_multi_poll", poll);
  module.symbol("curl_multi_wakeup", wakeup);
  module.symbol("curl_multi_info_read", info_read);
  module.symbol("curl_multi_cleanup", multi_cleanup);
  module.symbol("curl_multi_setopt", multi_setopt);
  global_init(CURL_GLOBAL_DEFAULT);
}

const CurlLibrary& curl() {
  static const CurlLibrary library;
  return library;
}

}  // namespace perigee
