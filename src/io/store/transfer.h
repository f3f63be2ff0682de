// Transfers by libcurl, which is loaded on first use: all of a process run on one loop of one thread, with deadlines. A caller waits for its
// own; what can be tried again is tried again, with growing pauses.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/io/file.h"

namespace perigee {

// Why an answer is not the part that was asked for.
enum class PartFault { none, changed, other_part };
// The server's certificate is not accepted; or there are no authorities to compare it with.
enum class TlsFault { none, server, no_authorities };

struct Transfer {
  // Asked:
  std::string method = "GET";        // GET, HEAD, PUT, POST, DELETE
  std::string url;                   // encoded
  std::vector<std::string> headers;  // "Name: value"
  std::vector<std::span<const std::byte>> body;
  bool has_body = false;                   // of PUT and POST; an empty one counts
  std::string range;                       // "0-99"; for sftp
  std::string user, password;              // of the server
  std::vector<std::string> before, after;  // commands of sftp
  bool upload = false;                     // sftp
  bool fresh = false;                      // on a new connection: curl repeats a request by itself where an old one turns out to be dead
  std::span<std::byte> into;               // where the body of a 2xx goes, when it is as large as this; else into `content`
  uint64_t limit = 1 << 20;                // of `content`
  int64_t stall_ms = 0;                    // without a byte; 0: PERIGEE_STORE_STALL_S
  bool lasting = false;                    // goes on while the program is being stopped
  int64_t total_ms = 0;                    // from its beginning to its end; 0: no limit
  std::string ca, certificate, key;        // files for TLS; empty: the system's, none
  int redirects = 0;                       // that are followed
  int tries = 0;                           // 0: PERIGEE_STORE_TRIES
  // Called on the caller's thread before each try: sets the headers, which may depend on the time. May throw.
  std::function<void(Transfer&)> prepare;
  // An answer that is to be tried again, besides those that always are (5xx, 429, lost connections). May throw.
  std::function<bool(Transfer&)> again;
  // Called on the caller's thread while more comes, about every 4 MiB: the first `count` bytes of `into` are there. Must not throw. A new try
  // begins at 0 again. A server that answers a request for a range with the whole file is not heard before its end.
  std::function<void(uint64_t count)> arrived;
  // Called on the loop's thread when status and headers of a 2xx are there, before the first byte: a fault ends the transfer.
  std::function<PartFault(int status, const Transfer& answer)> accepts;
  bool ranged = false;  // HTTP: a part is asked for

  // Answered:
  int status = 0;       // of HTTP; 200 of a completed sftp transfer, 404 and 403 where that says so; 0: no complete answer
  std::string problem;  // why there was none
  std::string answer_headers;
  Bytes content;
  uint64_t received = 0;  // bytes that went to `into`
  std::string redirect;   // where 3xx points to
  std::string effective;  // the address after redirects that were followed; stays until the next answer
  int64_t file_time = -1, length = -1;
  bool may_go = false;    // the fault may go away
  bool too_long = false;  // more came than there is room for
  PartFault part_fault = PartFault::none;
  TlsFault tls = TlsFault::none;
  int attempts = 0;

  bool ok() const { return status >= 200 && status < 300; }
  std::string header(std::string_view name) const;  // of the answer; empty when it has none
  void reset_answer();
};

// Runs all and waits. Throws only what `prepare` and `again` throw, and Error(resources) when libcurl is missing. `where` is for the one
// warning that a lasting fault gives.
void perform(std::span<Transfer* const> transfers, const std::string& where);
void perform(Transfer& transfer, const std::string& where);
// Begins one try of each without waiting; `done` is called on the loop's thread. They must live until then.
void begin_transfer(const std::shared_ptr<Transfer>& transfer, std::function<void()> done);

// stop_downloads_by() (http.h) said so.
bool downloads_stopped();

// The number in an environment variable, or `usual`. Error(usage) when it is none or out of range.
int64_t store_setting(const char* variable, int64_t usual, int64_t least, int64_t most);

}  // namespace perigee
