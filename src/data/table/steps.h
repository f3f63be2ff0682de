// Steps that change a table: {"filter": "age > 18"}, {"derive": {"h": "hour(when)"}}, {"group": ["city"], "mean": ["age"]}. The
// first key of a step is its verb. What a step measures on the training data (means, categories) is its state, kept with a model.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/core/config.h"
#include "src/data/table/frame.h"
#include "src/data/table/spill/frame_sink.h"
#include "src/data/table/spill/scratch_file.h"

namespace perigee::tables {

class ChunkStore;

class Step {
 public:
  virtual ~Step() = default;
  virtual void apply(Frame& frame) const = 0;
  // True: each row by itself, so that a table may come in chunks.
  virtual bool by_rows() const { return true; }
  // True: each sequence by itself, so that a table of sequences may come in chunks of whole ones.
  virtual bool by_sequences() const { return by_rows(); }
  // For a table that is larger than the memory: takes its chunks, and gives `next` those of the result, which has the same bits as that of
  // apply(). Null: the step has no such way, and the table must fit.
  virtual std::unique_ptr<FrameSink> spilled(const TableRoom& /*room*/, const UseFrame& /*next*/) const { return nullptr; }
  // True: what the step itself brings along is larger than the memory, so that spilled() is the only way.
  virtual bool only_spilled() const { return false; }
  // fit() of a table on the disk, with the same result. False: the step has no such way.
  virtual bool fit_stored(const ChunkStore& /*table*/, const TableRoom& /*room*/) { return false; }
  // Measures on the training data what is not given.
  virtual void fit(const Frame& /*frame*/) {}
  // Both for a step that is not fitted, where the second needs what the first has found of each row.
  virtual void fit_and_apply(Frame& frame) { fit(frame), apply(frame); }
  virtual bool is_fitted() const { return true; }
  virtual bool fits_alone() const { return false; }  // fit() does not look at the table
  virtual Json state() const { return {}; }
  virtual void set_state(const Config& /*state*/) {}
};

struct StepContext {
  std::string where, folder;
  TableRoom room;
};

enum class Rows : uint8_t {
  each,     // a row for each row
  chooses,  // some of them, or another order
  remakes   // others
};

struct StepDef {
  const char* name = nullptr;
  const char* doc = nullptr;
  perigee::Schema schema = {};
  std::unique_ptr<Step> (*open)(const Config& config, const StepContext& context) = nullptr;
  Rows rows = Rows::each;
};
std::span<const StepDef* const> step_defs();

class Steps {
 public:
  // `list` is that of a job; `states` what fitted() gave, or null. Error(data) that names the step.
  // `room`: what steps may hold of a table, and of the tables that they bring along.
  Steps(const Json& list, const std::string& where, const std::string& folder, const Json& states = {},
        const TableRoom& room = room_for_tables());
  bool by_rows() const;
  bool only_spilled() const;
  bool is_fitted() const;
  // Fits what is not fitted yet, on the way.
  void run(Frame& frame);
  // The same for a table that comes in chunks and may be larger than the memory: what comes out goes to `next`, in chunks too. The result has the
  // same bits as that of run(). finish() of what is returned comes after the last chunk.
  std::unique_ptr<FrameSink> run_spilled(const TableRoom& room, UseFrame next);
  void apply(Frame& frame) const;
  // To records, each of which is answered: steps that choose or sort rows are passed over. Error(data) for those that make other rows.
  void apply_to_each(Frame& frame) const;
  // To records that become sequences, each of which is answered: steps that choose or sort rows are passed over.
  void apply_to_sequences(Frame& frame) const;
  Json states() const;

 private:
  struct Named {
    std::string where;
    std::unique_ptr<Step> step;
    Rows rows = Rows::each;
  };
  std::vector<Named> steps_;
};

// --- For steps ------------------------------------------------------------------------------------------------------------------

// A step that is a function of its options, which it has read already.
std::unique_ptr<Step> step_of(std::function<void(Frame&)> apply, bool by_rows);
// One that takes each sequence by itself; `spilled`, if it is given, takes a table without sequences that is larger than the memory.
using SpillStep = std::function<std::unique_ptr<FrameSink>(const TableRoom& room, const UseFrame& next)>;
std::unique_ptr<Step> step_by_sequences(std::function<void(Frame&)> apply, SpillStep spilled = {});
// One that takes the whole table at once.
std::unique_ptr<Step> step_of_table(std::function<void(Frame&)> apply, SpillStep spilled);

// The numbers of the columns that the option names: a list, one name, "*" for all that `fits` takes. Error(data) at `where`.
std::vector<size_t> columns_of(const Frame& frame, const std::vector<std::string>& names, const std::string& where,
                               bool (*fits)(Type) = nullptr);
bool is_numeric(Type type);  // integer, real, boolean
// 0 .. groups - 1 for each row, by order of appearance, where the rows' cells of `columns` are equal; `first` gets each group's first row.
std::vector<int64_t> group_rows(const Frame& frame, const std::vector<size_t>& columns, std::vector<int64_t>* first);
// Rows sorted by the columns, stable; missing values last.
std::vector<int64_t> sorted_rows(const Frame& frame, const std::vector<size_t>& columns, const std::vector<bool>& descending,
                                 std::vector<int64_t> rows);
// Rows that stay (not 0), in sequences a shorter sequence each; one that has none goes.
void keep_rows(Frame& frame, const std::vector<uint8_t>& stays);
// Less than 0: the left cell comes first. 2 and -2: since the other one is missing or no number, which come last in either direction.
int compare_cells(const Column& left, int64_t a, const Column& right, int64_t b);
uint64_t cell_hash(const Column& column, const ColumnSpec& spec, int64_t row);
bool same_cell(const Column& a, const ColumnSpec& a_spec, int64_t a_row, const Column& b, const ColumnSpec& b_spec, int64_t b_row);

}  // namespace perigee::tables
