// Records as examples of a trained model: rows of a table by column names, images, texts, arrays, put through the transforms that the job
// applies to test data with what was fitted on the training data. The one way from what a user has to what a network reads.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/data/source.h"
#include "src/data/table.h"
#include "src/model/model.h"
#include "src/model/records/example_description.h"
#include "src/model/records/record_format.h"
#include "src/tensor/tensor.h"

namespace perigee {

namespace tables::arrow {
class HandedTable;
}

struct Records {
  SourcePtr source;     // has the model's inputs as fields; where an example's number is not its row, also kRowField
  bool single = false;  // one thing, such as an image: no number tells it from others
  std::vector<TargetUnit> units = {};
};

class RecordReader {
 public:
  // `job` and `fitted` are those of a model file or a trainer; either may be null.
  RecordReader(const ModelSpec& spec, const Json& job, const Json& fitted);

  // The description of the source that reads the job's data, with what was fitted; an empty object where the job names none.
  const Json& leaf() const { return leaf_; }
  // The source "packed" around it, whose rows the model reads; null: there is none.
  const Json* packed() const;

  // --- To predict: targets are not needed. Error(usage) for what the model does not take, Error(data) for what does not fit it.

  // .npy (one example or several), .npz (an array per input), .csv and .tsv (also .gz), .json, .jsonl, .jpg, .png; to a model of text any
  // other file is text, to one of recordings a recording.
  Records open_file(const std::string& path) const;
  // The files of a folder that such a model may take, by their names, sorted. Error(usage) when there are none.
  std::vector<std::string> files_in(const std::string& folder) const;
  // A file's content. automatic: by its first bytes; else CSV, or to a model of text a text. `name` begins messages.
  Records open(std::span<const std::byte> bytes, RecordFormat format, const std::string& name) const;
  // An object of columns by name, a list of objects, or an object of lists; to a model that is not of a table the keys are its inputs.
  Records open(const Json& records, const std::string& name) const;
  // A table of the program; to a model that is not of a table its columns are the inputs.
  Records open_table(const std::shared_ptr<const tables::arrow::HandedTable>& table, const std::string& name) const;

  // --- To judge: with targets.

  // `description` is a source as in a job. What it leaves out of how data are read is the job's; so are transforms, unless it has its own.
  SourcePtr open_labelled(const Json& description, const std::string& where, const std::string& folder) const;
  // A table's content: CSV, JSON or JSON Lines.
  SourcePtr open_labelled_table(std::span<const std::byte> bytes, const std::string& name) const;
  // The description of a file or folder alone.
  Json describe(const std::string& path) const;

 private:
  enum class Purpose { predict, judge };

  std::string leaf_type() const;
  bool is_table() const;    // csv or table
  bool reads_text() const;  // a file of text is what it predicts
  bool applies(const Json& transform, Purpose purpose) const;
  Json around(const Json& description, const Json& inner, Purpose purpose) const;
  SourcePtr open_leaf(const Json& leaf, Purpose purpose, const std::string& where,
                      const std::function<SourcePtr(const Config& leaf)>& open) const;
  const NetworkInput& only_input(const std::string& name) const;
  bool takes_images() const;
  [[noreturn]] void is_no_image(const std::string& name, const char* expected) const;
  void refuse_table(const std::string& name) const;  // a table's columns are no picture's pixels
  void check_fields(const DataSource& source, const std::string& name) const;

  Json table_leaf(const std::string& name) const;
  Records from_table(const Table& table) const;
  Records from_csv(std::string_view text, const std::string& name) const;
  Records from_json(const Json& records, const std::string& name) const;
  Records from_arrays(const std::string& name, const std::vector<std::pair<std::string, Tensor>>& arrays) const;
  Records from_npy(std::span<const std::byte> bytes, const std::string& name) const;
  Records from_npz(std::span<const std::byte> bytes, const std::string& name) const;
  Records from_image(std::span<const std::byte> bytes, const std::string& name) const;
  Records from_sound(std::span<const std::byte> bytes, const std::string& name) const;
  Records from_text(std::string_view text, const std::string& name) const;

  std::vector<NetworkInput> inputs_;
  std::vector<std::string> targets_;
  Json fitted_;
  Json description_;  // of the data that give examples their form, with what was fitted
  Json leaf_;         // the source in it that reads data
  std::vector<TargetUnit> units_;
};

}  // namespace perigee
