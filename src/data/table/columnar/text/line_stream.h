// Text that becomes other text line by line, as it is read.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/data/table/reading/byte_stream.h"

namespace perigee::tables {

// A field of CSV behind `made`, in quotes where it has to stand in them or `quoted` is set. A quote of 0: there are none.
void add_field(std::string_view field, char delimiter, char quote, bool quoted, std::string& made);

class LineStream : public ByteStream {
 public:
  // Error(data) at `where` and the line for one of more than `longest` bytes, whole MiB.
  LineStream(std::unique_ptr<ByteStream> inner, size_t longest, std::string where);
  size_t read(char* out, size_t size) final;

 protected:
  // Writes what takes the place of a line, which has no end here, behind `made`.
  virtual void add(std::string_view line, std::string& made) = 0;
  virtual void end(std::string&) {}  // behind the last line
  int64_t line_number() const { return line_; }
  std::string place() const { return where_ + ":" + std::to_string(line_); }

 private:
  bool more();
  void next(std::string_view line);

  std::unique_ptr<ByteStream> inner_;
  size_t longest_, at_ = 0;
  std::string where_, text_, made_;
  int64_t line_ = 0;
  bool ended_ = false;
};

}  // namespace perigee::tables
