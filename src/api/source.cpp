// perigee.h: data that live in the calling program.
#include "src/api/handles.h"
#include "src/data/array_source.h"

using namespace perigee;

namespace {

constexpr int32_t kMostFields = 64;
constexpr int64_t kEndless = int64_t{1} << 40;  // examples of a source that only declares its fields

// Calls `release` once nothing reads the caller's memory any more.
class Release {
 public:
  Release(void (*function)(void*), void* user) : function_(function), user_(user) {}
  ~Release() {
    if (function_) function_(user_);
  }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;

 private:
  void (*function_)(void*);
  void* user_;
};

Dtype dtype_of_field(const perigee_dtype& dtype, Dtype fallback, const std::string& name, const char* function) {
  const int number = number_of(dtype);
  if (number == 0) return fallback;
  if (number < PERIGEE_F32 || number > PERIGEE_BOOL)
    misuse(function, "field '" + name + "' has an unknown dtype", std::to_string(number), "a perigee_dtype");
  return static_cast<Dtype>(number - PERIGEE_F32);
}

Field read_field(const perigee_field& given, const char* function) {
  if (!given.name || !*given.name) misuse(function, "a field has no name");
  Field field{.name = given.name, .dtype = dtype_of_field(given.dtype, Dtype::f32, given.name, function), .classes = given.classes};
  if (given.rank < 0 || given.rank > PERIGEE_MAX_RANK - 1)
    misuse(function, "field '" + field.name + "' has a rank out of range", std::to_string(given.rank), "0 to 7");
  std::vector<int64_t> dims(given.shape, given.shape + given.rank);
  for (int64_t dim : dims)
    if (dim < 1) misuse(function, "field '" + field.name + "' has an empty dimension", std::to_string(dim), "at least 1");
  field.shape = Shape(dims);
  if (field.shape.elements() > int64_t{1} << 40) misuse(function, "field '" + field.name + "' is too large", field.shape.text());
  if (given.classes < 0 || (given.classes > 0 && field.shape.elements() != 1))
    misuse(function, "field '" + field.name + "': class labels are scalars", field.shape.text(), "rank 0 and classes >= 0");
  if (given.role < PERIGEE_NO_ROLE || given.role > PERIGEE_SEGMENT)
    misuse(function, "field '" + field.name + "' has an unknown role", std::to_string(given.role), "a perigee_role");
  field.role = static_cast<FieldRole>(given.role);
  if (given.of) field.of = given.of;
  if (field.of.empty() && field.role != FieldRole::none && field.role != FieldRole::weight)
    misuse(function, "field '" + field.name + "' does not say which field it serves", "", "a name in `of`");
  return field;
}

// Fields of the size that the caller's header gave them.
std::vector<perigee_field> read_fields(const perigee_field* fields, int32_t count, const char* function) {
  require(fields != nullptr, function, "fields must not be null");
  if (count < 1 || count > kMostFields) misuse(function, "the number of fields is out of range", std::to_string(count), "1 to 64");
  std::vector<perigee_field> copies;
  const auto* at = reinterpret_cast<const std::byte*>(fields);
  const size_t stride = fields[0].size;
  if (stride % alignof(perigee_field) != 0)
    misuse(function, "the fields' `size` is no size of a struct", std::to_string(stride), "sizeof(perigee_field)");
  for (int32_t i = 0; i < count; ++i, at += stride) {
    copies.push_back(read_struct(reinterpret_cast<const perigee_field*>(at), function));
    for (int32_t j = 0; j < i; ++j)
      if (copies[static_cast<size_t>(j)].name && copies.back().name &&
          std::string_view(copies.back().name) == copies[static_cast<size_t>(j)].name)
        misuse(function, "two fields have the name '" + std::string(copies.back().name) + "'");
  }
  return copies;
}

Column read_column(const perigee_field& given, int64_t examples, const char* function) {
  Column column{.field = read_field(given, function)};
  column.stored = dtype_of_field(given.stored, column.field.dtype, given.name, function);
  require(given.data != nullptr, function, "a field's data must not be null");
  column.data = static_cast<const std::byte*>(given.data);
  column.scale = given.scale == 0 ? 1 : given.scale;
  const int64_t packed = column.field.shape.elements() * static_cast<int64_t>(dtype_bytes(column.stored));
  if (given.stride != 0 && given.stride < packed)
    misuse(function, "field '" + column.field.name + "': the stride is smaller than an example", std::to_string(given.stride),
           "0, or at least " + std::to_string(packed) + " bytes");
  column.stride = given.stride == 0 ? packed : given.stride;
  if (examples > PTRDIFF_MAX / column.stride) misuse(function, "field '" + column.field.name + "' has more bytes than can be addressed");
  return column;
}

class HostSource final : public DataSource {
 public:
  HostSource(const perigee_source_definition& definition, std::vector<Field> fields, std::shared_ptr<const Release> release)
      : definition_(definition),
        description_(definition.description ? definition.description : "host"),
        fields_(std::move(fields)),
        release_(std::move(release)) {}

  int64_t size() const override { return definition_.examples; }
  const std::vector<Field>& fields() const override { return fields_; }
  SourceTraits traits() const override {
    return {.description = description_, .cheap = definition_.cheap != 0, .live = definition_.live != 0};
  }

  void read(const ReadKey& key, std::span<std::byte* const> slots) const override {
    const perigee_read_key given{key.index, key.epoch, key.seed};
    void* targets[kMostFields];
    for (size_t i = 0; i < slots.size(); ++i) targets[i] = slots[i];
    char message[512] = {};
    const auto call = [&] { return definition_.read(definition_.user, &given, targets, message, sizeof message); };
    int status = 0;
    if (definition_.serial) {
      const std::lock_guard lock(mutex_);
      status = call();
    } else {
      status = call();
    }
    if (status == 0) return;
    message[sizeof message - 1] = 0;
    throw Error(ErrorKind::data, {.where = description_ + ": example " + std::to_string(key.index),
                                  .what = message[0] ? message : "the program's data source cannot be read",
                                  .got = "status " + std::to_string(status)});
  }

 private:
  perigee_source_definition definition_;
  std::string description_;
  std::vector<Field> fields_;
  std::shared_ptr<const Release> release_;
  mutable std::mutex mutex_;
};

constexpr const char* kDeclared = "examples that the program feeds";

// Says what examples look like and has none.
class DeclaredSource final : public DataSource {
 public:
  explicit DeclaredSource(std::vector<Field> fields) : fields_(std::move(fields)) {}
  int64_t size() const override { return kEndless; }
  const std::vector<Field>& fields() const override { return fields_; }
  SourceTraits traits() const override { return {.description = kDeclared, .cheap = true, .live = true}; }
  void read(const ReadKey&, std::span<std::byte* const>) const override {
    throw Error(ErrorKind::usage, {.where = kDeclared,
                                   .what = "this source only declares its fields",
                                   .hint = "train with perigee_trainer_feed, or bind a source that has examples"});
  }

 private:
  std::vector<Field> fields_;
};

void give_source(SourcePtr source, perigee_source** out) {
  auto handle = std::make_unique<perigee_source>();
  handle->source = std::move(source);
  *out = handle.release();
}

}  // namespace

extern "C" {

perigee_status perigee_source_from_arrays(perigee_context* context, int64_t examples, const perigee_field* fields, int32_t field_count,
                                          void (*release)(void* user), void* user, perigee_source** out) noexcept {
  constexpr const char* kHere = "perigee_source_from_arrays";
  if (out) *out = nullptr;
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(out != nullptr, kHere, "out must not be null");
    if (examples < 1) misuse(kHere, "a source needs at least one example", std::to_string(examples));
    std::vector<Column> columns;
    for (const perigee_field& field : read_fields(fields, field_count, kHere)) {
      columns.push_back(read_column(field, examples, kHere));
      if (columns.back().field.classes > 0) check_labels(columns.back(), examples, "field '" + columns.back().field.name + "'");
    }
    // Only now: when this fails, the caller still owns the memory.
    auto owner = std::make_shared<const Release>(release, user);
    give_source(std::make_shared<ArraySource>("arrays (" + std::to_string(examples) + " examples in memory)", examples, std::move(columns),
                                              std::vector<std::shared_ptr<const void>>{std::move(owner)}),
                out);
  });
}

perigee_status perigee_source_create(perigee_context* context, const perigee_source_definition* definition, perigee_source** out) noexcept {
  constexpr const char* kHere = "perigee_source_create";
  if (out) *out = nullptr;
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(definition && out, kHere, "definition and out must not be null");
    const auto given = read_struct(definition, kHere);
    require(given.read != nullptr, kHere, "the definition has no read function");
    if (given.examples < 1) misuse(kHere, "a source needs at least one example", std::to_string(given.examples));
    std::vector<Field> fields;
    for (const perigee_field& field : read_fields(given.fields, given.field_count, kHere)) fields.push_back(read_field(field, kHere));
    auto release = std::make_shared<const Release>(given.release, given.user);
    give_source(std::make_shared<HostSource>(given, std::move(fields), std::move(release)), out);
  });
}

perigee_status perigee_source_declare(perigee_context* context, const perigee_field* fields, int32_t field_count,
                                      perigee_source** out) noexcept {
  constexpr const char* kHere = "perigee_source_declare";
  if (out) *out = nullptr;
  if (!context) return PERIGEE_USAGE;
  return guard(*context->state, context->message, [&] {
    require(out != nullptr, kHere, "out must not be null");
    std::vector<Field> declared;
    for (const perigee_field& field : read_fields(fields, field_count, kHere)) declared.push_back(read_field(field, kHere));
    give_source(std::make_shared<DeclaredSource>(std::move(declared)), out);
  });
}

void perigee_source_free(perigee_source* source) noexcept { const std::unique_ptr<perigee_source> owned(source); }
}
