// Tables by Arrow's C interfaces, built by hand: what is damaged is refused by a message, and each structure is released once, whatever happens.
// arrow_test.py has whole tables of other libraries.
#include "src/data/table/columnar/arrow/perigee_arrow.h"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>

#include "tests/api/support.h"

namespace {

// Three rows of x (float64), y (int64), t (text), v (views of texts), l (lists of float64) and d (texts by a dictionary).
class ArrowTable {
 public:
  ArrowTable() {
    column("x", "g", {nullptr, x_});
    column("y", "l", {nullptr, y_});
    column("t", "u", {nullptr, text_ends_, "onetwothree"});
    make_views();
    column("v", "vu", {nullptr, views_, kLong, view_sizes_});
    ArrowArray& items = array(3);
    items.length = 6;
    buffers(items, {nullptr, items_});
    ArrowSchema& item = schema("item", "g");
    column("l", "+l", {nullptr, list_ends_});
    adopt(columns_.back(), fields_.back(), items, item);
    ArrowArray& entries = array(2);
    buffers(entries, {nullptr, entry_ends_, "redblue"});
    ArrowSchema& entry = schema("", "u");
    column("d", "c", {nullptr, places_});
    columns_.back()->dictionary = &entries;
    fields_.back()->dictionary = &entry;
    table.format = "+s";
    table.n_children = batch.n_children = static_cast<int64_t>(columns_.size());
    table.children = fields_.data();
    batch.children = columns_.data();
    batch.length = 3;
    buffers(batch, {nullptr});
    own(table);
    own(batch);
    stream.get_schema = [](ArrowArrayStream* self, ArrowSchema* out) { return of(self).get_schema(out); };
    stream.get_next = [](ArrowArrayStream* self, ArrowArray* out) { return of(self).get_next(out); };
    stream.get_last_error = [](ArrowArrayStream* self) { return of(self).said; };
    own(stream);
  }
  ArrowTable(const ArrowTable&) = delete;

  ArrowSchema& field(size_t c) { return *fields_[c]; }
  ArrowArray& values(size_t c) { return *columns_[c]; }

  ArrowSchema table{};
  ArrowArray batch{};
  ArrowArrayStream stream{};
  int schemas_released = 0, batches_released = 0, streams_released = 0;
  int schema_status = 0, next_status = 0;
  const char* said = nullptr;
  double x_[3] = {1, 2, 3};
  int64_t y_[3] = {0, 1, 0};
  int32_t text_ends_[4] = {0, 3, 6, 11}, list_ends_[4] = {0, 2, 4, 6}, entry_ends_[3] = {0, 3, 7}, views_[12] = {};
  double items_[6] = {1, 2, 3, 4, 5, 6};
  int8_t places_[3] = {0, 1, 0};
  int64_t view_sizes_[1] = {20};

 private:
  static constexpr const char* kLong = "twenty characters ..";

  static ArrowTable& of(ArrowArrayStream* stream) { return *static_cast<ArrowTable*>(stream->private_data); }
  template <class T>
  static int& released(ArrowTable& of) {
    if constexpr (std::is_same_v<T, ArrowSchema>) return of.schemas_released;
    else if constexpr (std::is_same_v<T, ArrowArray>) return of.batches_released;
    else return of.streams_released;
  }
  template <class T>
  void own(T& given) {
    given.private_data = this;
    given.release = [](T* self) {
      ++released<T>(*static_cast<ArrowTable*>(self->private_data));
      self->release = nullptr;
    };
  }
  template <class T>
  static void child(T& given) {
    given.release = [](T* self) { self->release = nullptr; };
  }

  int get_schema(ArrowSchema* out) {
    if (schema_status != 0) return schema_status;
    *out = table;
    table.release = nullptr;
    return 0;
  }
  int get_next(ArrowArray* out) {
    *out = {};
    if (next_status != 0) return next_status;
    std::swap(*out, batch);
    return 0;
  }

  ArrowSchema& schema(const char* name, const char* format) {
    ArrowSchema& made = schemas_.emplace_back();
    made.name = name, made.format = format;
    child(made);
    return made;
  }
  ArrowArray& array(int64_t length) {
    ArrowArray& made = arrays_.emplace_back();
    made.length = length;
    child(made);
    return made;
  }
  void buffers(ArrowArray& to, std::vector<const void*> list) {
    auto& kept = buffers_.emplace_back(std::move(list));
    to.buffers = kept.data(), to.n_buffers = static_cast<int64_t>(kept.size());
  }
  void column(const char* name, const char* format, std::vector<const void*> list) {
    fields_.push_back(&schema(name, format));
    columns_.push_back(&array(3));
    buffers(*columns_.back(), std::move(list));
  }
  void adopt(ArrowArray* to, ArrowSchema* field, ArrowArray& items, ArrowSchema& item) {
    auto& array_list = children_.emplace_back(1, &items);
    auto& schema_list = child_schemas_.emplace_back(1, &item);
    to->children = array_list.data(), to->n_children = 1;
    field->children = schema_list.data(), field->n_children = 1;
  }
  void make_views() {
    views_[0] = 2, std::memcpy(&views_[1], "ab", 2);
    views_[4] = 20, views_[8] = 1, std::memcpy(&views_[9], "c", 1);
  }

  std::deque<ArrowSchema> schemas_;
  std::deque<ArrowArray> arrays_;
  std::deque<std::vector<const void*>> buffers_;
  std::deque<std::vector<ArrowArray*>> children_;
  std::deque<std::vector<ArrowSchema*>> child_schemas_;
  std::vector<ArrowSchema*> fields_;
  std::vector<ArrowArray*> columns_;
};

struct Opened {
  perigee_status status = PERIGEE_OK;
  std::string message;
};

// Hands the table over and opens a job that reads it; all handles are freed.
Opened opened(ArrowTable& table, const char* train = R"({"type": "table", "host": "train", "target": "y", "drop": ["l"]})") {
  perigee_context* context = nullptr;
  perigee_source* source = nullptr;
  perigee_job* job = nullptr;
  perigee_trainer* trainer = nullptr;
  EXPECT_EQ(perigee_context_create(nullptr, &context), PERIGEE_OK);
  Opened result{.status = perigee_source_from_arrow(context, "rows", &table.stream, &source)};
  result.message = perigee_context_message(context);
  EXPECT_EQ(table.stream.release, nullptr);
  EXPECT_EQ(table.streams_released, 1);
  if (source != nullptr) {
    const std::string text =
        R"({"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "sgd", "epochs": 1, "threads": 1,
        "data": {"batch": 1, "train": )" +
        std::string(train) + "}}";
    EXPECT_EQ(perigee_job_parse(context, text.data(), text.size(), PERIGEE_JSON, "job", nullptr, &job), PERIGEE_OK)
        << perigee_context_message(context);
    EXPECT_EQ(perigee_job_bind(job, "train", source), PERIGEE_OK);
    result.status = perigee_trainer_create(job, nullptr, &trainer);
    result.message = perigee_job_message(job);
    if (trainer != nullptr) {
      EXPECT_EQ(perigee_trainer_run(trainer, nullptr), PERIGEE_OK) << perigee_trainer_message(trainer);
    }
  }
  perigee_trainer_free(trainer);
  perigee_job_free(job);
  perigee_source_free(source);
  perigee_context_free(context);
  return result;
}

TEST(ArrowTable, EachStructureIsReleasedOnce) {
  ArrowTable table;
  const Opened whole = opened(table);
  EXPECT_EQ(whole.status, PERIGEE_OK) << whole.message;
  EXPECT_EQ(table.schemas_released, 1);
  EXPECT_EQ(table.batches_released, 1);
  EXPECT_EQ(table.streams_released, 1);
}

TEST(ArrowTable, IsReadWhereItLies) {
  ArrowTable table;
  perigee_context* context = nullptr;
  perigee_source* source = nullptr;
  ASSERT_EQ(perigee_context_create(nullptr, &context), PERIGEE_OK);
  // x: lists of two numbers, and y.
  table.field(4).name = "x", table.field(4).format = "+w:2", table.values(4).n_buffers = 1;
  table.table.children[0] = &table.field(4), table.batch.children[0] = &table.values(4);
  table.table.n_children = table.batch.n_children = 2;
  ASSERT_EQ(perigee_source_from_arrow_array(context, nullptr, &table.table, &table.batch, &source), PERIGEE_OK)
      << perigee_context_message(context);
  EXPECT_EQ(table.batch.release, nullptr);
  const std::string text =
      R"({"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "sgd", "epochs": 1, "seed": 1,
      "threads": 1, "data": {"batch": 3, "train": {"type": "host", "name": "train"}}})";
  perigee_job* job = nullptr;
  perigee_trainer* trainer = nullptr;
  ASSERT_EQ(perigee_job_parse(context, text.data(), text.size(), PERIGEE_JSON, "job", nullptr, &job), PERIGEE_OK)
      << perigee_context_message(context);
  ASSERT_EQ(perigee_job_bind(job, "train", source), PERIGEE_OK);
  ASSERT_EQ(perigee_trainer_create(job, nullptr, &trainer), PERIGEE_OK) << perigee_job_message(job);
  double before = 0, after = 0;
  ASSERT_EQ(perigee_trainer_evaluate(trainer, "train", &before, nullptr, nullptr), PERIGEE_OK) << perigee_trainer_message(trainer);
  for (double& item : table.items_) item *= 1000;  // the program's memory, after all was opened
  ASSERT_EQ(perigee_trainer_evaluate(trainer, "train", &after, nullptr, nullptr), PERIGEE_OK);
  EXPECT_GT(std::abs(after - before), 0.5) << before << " " << after;
  EXPECT_EQ(table.batches_released, 0);
  perigee_source_free(source);
  perigee_job_free(job);
  EXPECT_EQ(table.batches_released, 0) << "a trainer reads it";
  perigee_trainer_free(trainer);
  EXPECT_EQ(table.batches_released, 1);
  EXPECT_EQ(table.schemas_released, 1);
  perigee_context_free(context);
}

struct Damage {
  const char* said;
  std::function<void(ArrowTable&)> make;
  perigee_status status = PERIGEE_DATA;
};

const Damage kDamages[] = {
    {"rows: the ArrowArrayStream has no function that gives its schema, or its batches",
     [](ArrowTable& t) { t.stream.get_next = nullptr; }},
    {"rows: the ArrowArrayStream gives no schema: no disk; got status 5", [](ArrowTable& t) { t.schema_status = EIO, t.said = "no disk"; }},
    {"rows: batch 1: the ArrowArrayStream gives no batch; got status 12", [](ArrowTable& t) { t.next_status = ENOMEM; }},
    {"the ArrowSchema is of one column and not of a table; got the format 'g'", [](ArrowTable& t) { t.table.format = "g"; }},
    {"the ArrowSchema has no format", [](ArrowTable& t) { t.table.format = nullptr; }},
    {"the table has no columns", [](ArrowTable& t) { t.table.n_children = 0; }},
    {"the ArrowSchema's number of children is out of range; got -1", [](ArrowTable& t) { t.table.n_children = -1; }},
    {"the ArrowSchema's number of children is out of range", [](ArrowTable& t) { t.table.n_children = INT64_MAX; }},
    {"the ArrowSchema's children are a null pointer", [](ArrowTable& t) { t.table.children = nullptr; }},
    {"a child of the ArrowSchema is a null pointer; got child 1", [](ArrowTable& t) { t.table.children[1] = nullptr; }},
    {"column 'x': the ArrowSchema has been released", [](ArrowTable& t) { t.field(0).release = nullptr; }},
    {"column 'x': the format of the column is none of Arrow's; got 'q'", [](ArrowTable& t) { t.field(0).format = "q"; }},
    {"the format of the column is none of Arrow's; got 'd:x'", [](ArrowTable& t) { t.field(0).format = "d:x"; }},
    {"the format of the column is none of Arrow's; got '+w:'", [](ArrowTable& t) { t.field(0).format = "+w:"; }},
    {"the format of the column is none of Arrow's; got 'tsx:'", [](ArrowTable& t) { t.field(0).format = "tsx:"; }},
    {"places in a dictionary are no integers; got 'u'", [](ArrowTable& t) { t.field(5).format = "u"; }},
    {"the format of the dictionary is none of Arrow's; got '?'", [](ArrowTable& t) { t.field(5).dictionary->format = "?"; }},
    {"the number of rows is out of range, or there are too many batches; got -3 rows", [](ArrowTable& t) { t.batch.length = -3; }},
    {"the ArrowArray is shorter than what holds it; got 2, expected at least 3", [](ArrowTable& t) { t.values(0).length = 2; }},
    {"the ArrowArray is shorter than what holds it", [](ArrowTable& t) { t.batch.offset = 1; }},
    {"the ArrowArray's length or offset is out of range", [](ArrowTable& t) { t.values(0).offset = -1; }},
    {"the ArrowArray's length or offset is out of range", [](ArrowTable& t) { t.values(0).offset = INT64_MAX; }},
    {"the ArrowArray is a null pointer", [](ArrowTable& t) { t.batch.children[0] = nullptr; }},
    {"the ArrowArray has been released", [](ArrowTable& t) { t.values(0).release = nullptr; }},
    {"the ArrowArray's children are a null pointer", [](ArrowTable& t) { t.batch.children = nullptr; }},
    {"the ArrowArray has another number of children than its schema; got 0", [](ArrowTable& t) { t.batch.n_children = 0; }},
    {"the ArrowArray has another number of buffers than its type; got 1, expected 2", [](ArrowTable& t) { t.values(0).n_buffers = 1; }},
    {"the ArrowArray has another number of buffers than its type; got 2, expected 3 or more",
     [](ArrowTable& t) { t.values(3).n_buffers = 2; }},
    {"the ArrowArray's buffers are a null pointer", [](ArrowTable& t) { t.values(0).buffers = nullptr; }},
    {"a buffer of the ArrowArray is a null pointer; got buffer 1", [](ArrowTable& t) { t.values(0).buffers[1] = nullptr; }},
    {"column 't': a buffer of the ArrowArray is a null pointer; got buffer 2", [](ArrowTable& t) { t.values(2).buffers[2] = nullptr; }},
    {"the ArrowArray's count of missing values is out of range; got 9", [](ArrowTable& t) { t.values(0).null_count = 9; }},
    {"the ArrowArray has missing values, and its bitmap is a null pointer; got 1 missing",
     [](ArrowTable& t) { t.values(0).null_count = 1; }},
    {"the places of the column's texts are not in order; got 3 to 2", [](ArrowTable& t) { t.text_ends_[2] = 2; }},
    {"the places of the column's texts are not in order; got -1 to 3", [](ArrowTable& t) { t.text_ends_[0] = -1; }},
    {"a text of the column has a length below 0; got -4", [](ArrowTable& t) { t.views_[0] = -4; }},
    {"the column has a text in a buffer that there is not; got 1, expected 0 to 0", [](ArrowTable& t) { t.views_[6] = 1; }},
    {"the column has a text that leads out of its buffer; got 20 bytes from 5", [](ArrowTable& t) { t.views_[7] = 5; }},
    {"the column has a text that leads out of its buffer", [](ArrowTable& t) { t.views_[7] = INT32_MAX; }},
    {"the column has a place beyond its dictionary; got 2, expected 0 to 1", [](ArrowTable& t) { t.places_[1] = 2; }},
    {"the column has a place beyond its dictionary; got -1", [](ArrowTable& t) { t.places_[1] = -1; }},
    {"the ArrowArray has a dictionary where its schema has none", [](ArrowTable& t) { t.values(5).dictionary = nullptr; }},
    {"the column has an unsigned number beyond 2^63, which a column cannot have; got 18446744073709551611",
     [](ArrowTable& t) { t.field(1).format = "L", t.y_[1] = -5; }},
    {"the places of the column's lists are not in order; got 0 to -2", [](ArrowTable& t) { t.list_ends_[3] = -2; }},
    {"the places of the column's lists are not in order; got 4 to 3", [](ArrowTable& t) { t.list_ends_[1] = 4, t.list_ends_[2] = 3; }},
    {"column 'l': the ArrowArray is shorter than what holds it; got 6, expected at least 7", [](ArrowTable& t) { t.list_ends_[3] = 7; }},
    {"the ArrowArray has another number of children than its schema; got 0, expected 1", [](ArrowTable& t) { t.values(4).n_children = 0; }},
};

TEST(ArrowTable, DamageIsToldOf) {
  for (const Damage& damage : kDamages) {
    ArrowTable table;
    damage.make(table);
    const bool schema_given = table.stream.get_next != nullptr && table.schema_status == 0;
    const Opened result = opened(table, R"({"type": "table", "host": "train", "target": "y"})");
    EXPECT_EQ(result.status, damage.status) << damage.said;
    EXPECT_NE(result.message.find(damage.said), std::string::npos) << result.message << "\nlacks: " << damage.said;
    EXPECT_EQ(table.schemas_released, schema_given ? 1 : 0) << damage.said;
    // One that was not asked for is still the stream's own.
    EXPECT_EQ(table.batches_released + (table.batch.release != nullptr), 1) << damage.said;
  }
}

// The same chain of structs in both branches of each: few structs, and more columns than memory.
TEST(ArrowTable, BranchesWithoutEndAreRefused) {
  ArrowTable table;
  std::vector<ArrowSchema> chain(20, table.field(0));
  std::vector<std::array<ArrowSchema*, 2>> children(chain.size());
  for (size_t i = 0; i + 1 < chain.size(); ++i) {
    children[i] = {&chain[i + 1], &chain[i + 1]};
    chain[i].format = "+s", chain[i].n_children = 2, chain[i].children = children[i].data();
  }
  table.table.children[0] = chain.data();
  const Opened result = opened(table);
  EXPECT_EQ(result.status, PERIGEE_DATA);
  EXPECT_NE(result.message.find("the ArrowSchema has more columns than a table may have"), std::string::npos) << result.message;
}

TEST(ArrowTable, RowsWithoutMemoryAreCounted) {
  ArrowTable table;
  table.field(0).format = "n", table.values(0).n_buffers = 0;
  table.values(0).length = table.batch.length = int64_t{1} << 30;
  table.table.n_children = table.batch.n_children = 1;
  const Opened result = opened(table, R"({"type": "table", "host": "train"})");
  EXPECT_NE(result.message.find("a column without any value has more rows than a table may have"), std::string::npos) << result.message;
}

// x is column `c` of the table; y is beside it.
Opened in_place(ArrowTable& table, size_t c) {
  table.field(c).name = "x";
  table.table.children[0] = &table.field(c), table.batch.children[0] = &table.values(c);
  table.table.n_children = table.batch.n_children = 2;
  return opened(table, R"({"type": "host", "name": "train"})");
}

TEST(ArrowTable, FieldsInPlaceAreNumbers) {
  const uint8_t bits[] = {0b101};
  struct Case {
    const char* said;
    size_t column;
    std::function<void(ArrowTable&)> make;
  };
  const Case cases[] = {
      {"column 'x': the column has no numbers of a field as it lies there", 2, [](ArrowTable&) {}},
      {"column 'x': the column is not read: its type is not one that a table has", 0, [](ArrowTable& t) { t.field(0).format = "tiM"; }},
      {"column 'x': rows without a value are no examples", 0,
       [&](ArrowTable& t) { t.values(0).null_count = 1, t.values(0).buffers[0] = bits; }},
      {"column 'x': a list has an element without a value", 4,
       [&](ArrowTable& t) {
         t.field(4).format = "+w:2", t.values(4).n_buffers = 1;
         t.field(4).children[0]->format = "l", t.values(4).children[0]->null_count = -1, t.values(4).children[0]->buffers[0] = bits;
       }},
      {"rows: the table has no rows", 0, [](ArrowTable& t) { t.batch.length = 0; }},
  };
  for (const Case& each : cases) {
    ArrowTable table;
    each.make(table);
    const Opened result = in_place(table, each.column);
    EXPECT_EQ(result.status, PERIGEE_DATA);
    EXPECT_NE(result.message.find(each.said), std::string::npos) << result.message << "\nlacks: " << each.said;
    EXPECT_EQ(table.batches_released, 1);
  }
}

TEST(ArrowTable, JobsSayWhichTableTheyMean) {
  const auto refused = [](const char* train) {
    ArrowTable table;
    return opened(table, train).message;
  };
  EXPECT_NE(refused(R"({"type": "table", "host": "train", "file": "x.csv"})").find("is of a file, and 'host' names a table of the program"),
            std::string::npos);
  EXPECT_NE(refused(R"({"type": "table"})").find("'file' is missing"), std::string::npos);
  EXPECT_NE(refused(R"({"type": "table", "host": "trian"})").find("did you mean 'train'"), std::string::npos)
      << refused(R"({"type": "table", "host": "trian"})");
  const Quadrants data(20);
  pg::job job = small_experiment(data.source());
  job.set("data.train", pg::options{{"type", "table"}, {"host", "train"}});
  const std::string text = failure([&] { pg::trainer trainer(job); }, PERIGEE_MODEL);
  EXPECT_NE(text.find("names data of the program that are no table"), std::string::npos) << text;
}

TEST(ArrowTable, GoesAndComesInCpp) {
  ArrowTable table, again, asked;
  pg::job job = pg::job::parse(R"({"network": [{"type": "dense", "out": 2}], "loss": "cross_entropy", "optimizer": "sgd", "epochs": 1,
      "threads": 1, "data": {"batch": 1, "train": {"type": "table", "host": "train", "target": "y", "drop": ["l"]}}})");
  job.bind_table("train", &table.stream);
  pg::trainer trainer(job);
  trainer.run();
  const pg::prediction answers = trainer.model().predict_arrow(&again.stream);
  EXPECT_EQ(answers.examples(), 3);
  ArrowArrayStream out{};
  trainer.model().predict_arrow(&asked.stream, &out);
  ASSERT_NE(out.release, nullptr);
  ArrowSchema schema{}, second{};
  ArrowArray batch{}, end{};
  ASSERT_EQ(out.get_schema(&out, &schema), 0);
  ASSERT_EQ(out.get_schema(&out, &second), 0) << "a stream may be asked twice";
  ASSERT_EQ(out.get_next(&out, &batch), 0);
  ASSERT_EQ(out.get_next(&out, &end), 0);
  EXPECT_EQ(end.release, nullptr);
  out.release(&out);
  EXPECT_EQ(out.release, nullptr);
  ASSERT_EQ(batch.n_children, 3);
  EXPECT_STREQ(schema.children[1]->format, "+w:2");
  EXPECT_STREQ(schema.children[2]->dictionary->format, "U");
  ArrowArray moved = *batch.children[1];  // a child may be moved out, and outlive the others
  batch.children[1]->release = nullptr;
  batch.release(&batch);
  EXPECT_EQ(batch.release, nullptr);
  const auto* numbers = static_cast<const float*>(moved.children[0]->buffers[1]);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(numbers[2 * i], answers.output().of(i)[0]);
    EXPECT_NEAR(numbers[2 * i] + numbers[2 * i + 1], 1, 1e-6);
  }
  moved.release(&moved);
  schema.release(&schema);
  second.release(&second);
  EXPECT_EQ(asked.batches_released + again.batches_released, 2);
}

TEST(ArrowTable, IsTakenOverInEachCase) {
  for (const bool with_context : {false, true}) {
    ArrowTable table;
    perigee_context* context = nullptr;
    if (with_context) {
      ASSERT_EQ(perigee_context_create(nullptr, &context), PERIGEE_OK);
    }
    EXPECT_EQ(perigee_source_from_arrow(context, "rows", &table.stream, nullptr), PERIGEE_USAGE);
    EXPECT_EQ(table.streams_released, 1);
    EXPECT_EQ(perigee_source_from_arrow_array(context, "rows", &table.table, &table.batch, nullptr), PERIGEE_USAGE);
    EXPECT_EQ(table.schemas_released + table.batches_released, 2);
    perigee_context_free(context);
  }
  perigee_context* context = nullptr;
  perigee_source* source = nullptr;
  ASSERT_EQ(perigee_context_create(nullptr, &context), PERIGEE_OK);
  EXPECT_EQ(perigee_source_from_arrow(context, nullptr, nullptr, &source), PERIGEE_USAGE);
  EXPECT_NE(std::string(perigee_context_message(context)).find("table: the ArrowArrayStream is a null pointer"), std::string::npos)
      << perigee_context_message(context);
  EXPECT_EQ(perigee_source_from_arrow_array(context, nullptr, nullptr, nullptr, &source), PERIGEE_USAGE);
  EXPECT_NE(std::string(perigee_context_message(context)).find("the ArrowSchema or the ArrowArray is a null pointer, or has been released"),
            std::string::npos);
  ArrowTable table;
  perigee_prediction* prediction = nullptr;
  EXPECT_EQ(perigee_model_predict_arrow(nullptr, &table.stream, nullptr, &prediction), PERIGEE_USAGE);
  EXPECT_EQ(table.streams_released, 1);
  ArrowArrayStream out{};
  EXPECT_EQ(perigee_prediction_arrow(nullptr, &out), PERIGEE_USAGE);
  EXPECT_EQ(out.release, nullptr);
  perigee_context_free(context);
}

}  // namespace
