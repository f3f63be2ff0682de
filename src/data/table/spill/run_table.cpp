#include "src/data/table/spill/run_table.h"

#include <numeric>

#include "src/data/table/spill/chunk_store.h"

namespace perigee::tables {
namespace {

constexpr uint64_t kRunTablePiece = uint64_t{1} << 20;

}  // namespace

bool run_table(TableFile& file, Steps& steps, const TableRoom& room, bool numbered, const UseFrame& use) {
  Frame whole = empty_frame(file.schema());
  uint64_t bytes = 0;
  std::unique_ptr<FrameSink> chain;
  const auto spill = [&] {
    chain = steps.run_spilled(room, use);
    each_piece(std::move(whole), std::min(kRunTablePiece, room.part() / 8), [&](Frame&& piece) { chain->add(std::move(piece)); });
    whole = Frame();
  };
  if (steps.only_spilled()) spill();
  const bool held = file.each([](TableFile::Chunk&) {},
                              [&](TableFile::Chunk& chunk) {
                                Frame& frame = chunk.block.frame;
                                if (numbered) {
                                  frame.numbers.resize(static_cast<size_t>(frame.rows));
                                  std::iota(frame.numbers.begin(), frame.numbers.end(), chunk.first_row + 1);
                                }
                                if (chain != nullptr) return chain->add(std::move(frame));
                                bytes += bytes_of(frame);
                                whole.append(frame);
                                whole.numbers.insert(whole.numbers.end(), frame.numbers.begin(), frame.numbers.end());
                                if (bytes > room.part()) spill();
                              });
  if (!held) return false;
  if (chain != nullptr) return chain->finish(), true;
  steps.run(whole);
  use(std::move(whole));
  return true;
}

}  // namespace perigee::tables
