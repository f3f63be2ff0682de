/* Perigee as a library: the C ABI. C++ programs may prefer perigee.hpp, which is header-only over this file.
 *
 * Everything is reached through opaque handles:
 *
 *     perigee_context   threads, log callback; makes the others
 *     perigee_job       what to train: network + data + optimiser + seed, one JSON document
 *     perigee_source    data that live in the calling program
 *     perigee_trainer   a run of a job; perigee_model: a network with its parameters; perigee_predictor: answers many threads with one
 *     perigee_prediction  what a model says of records; perigee_session: a sequence that a model reads in pieces
 *     perigee_tensor    numbers; perigee_trace, perigee_function: a function of tensors while it is recorded, and afterwards
 *
 * Every function that can fail returns a status; the handle that it was called on then holds a message that says where, what, got,
 * expected and, where one exists, the fix. Creating functions leave the message in the handle that they create from and set *out
 * to null. Any function may be called from any thread: calls on one handle take turns, calls on different handles do not meet. A
 * handle keeps alive what it was made from, so handles may be freed in any order; none may be used while or after it is freed.
 * The library has no global state to set up, never prints, never exits, and installs no signal handlers. (Ops and data that the program
 * registers hold for the process.)
 *
 * Structs that cross the border begin with `size`, which the caller sets to sizeof the struct (PERIGEE_INIT does): programs built
 * against an older header go on working with a newer library. What is zero has its default.
 *
 * Text is UTF-8. Text that a function hands out through a `char**` is freed with perigee_free.
 */
#ifndef PERIGEE_H
#define PERIGEE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PERIGEE_API __attribute__((visibility("default")))
#else
#define PERIGEE_API
#endif

#ifdef __cplusplus
#define PERIGEE_NOEXCEPT noexcept
extern "C" {
#else
#define PERIGEE_NOEXCEPT
#endif

#define PERIGEE_INIT(type) ((type){.size = sizeof(type)})

/* "0.1.0": of the library that is loaded, which need not be that of the header. */
PERIGEE_API const char* perigee_version(void) PERIGEE_NOEXCEPT;

typedef enum perigee_status {
  PERIGEE_OK = 0,
  PERIGEE_STOPPED = 1, /* a callback or perigee_trainer_stop asked for it; nothing is lost */
  PERIGEE_USAGE = 2,   /* a wrong argument */
  PERIGEE_DATA = 3,    /* data missing, damaged or not what the job says */
  PERIGEE_MODEL = 4,   /* a job, script or model file that is wrong; a loss that is not finite */
  PERIGEE_CLUSTER = 5,
  PERIGEE_AUTHENTICATION = 6,
  PERIGEE_RESOURCES = 7, /* memory, disk */
  PERIGEE_INTERNAL = 8,  /* a defect of Perigee */
  PERIGEE_BUSY = 9,      /* a predictor's queue is full: come again later */
  PERIGEE_TIMEOUT = 10   /* a request was not begun in time */
} perigee_status;

/* Freed by perigee_free: any `char*` or byte buffer that a function hands out. Null is fine. */
PERIGEE_API void perigee_free(void* memory) PERIGEE_NOEXCEPT;

/* --- Worker processes --------------------------------------------------------------------------------------------------------- */

/* Training with several processes starts the program that it runs in again, as `perigee worker ...`. A program that embeds Perigee calls
 * this first in main, and returns what it says unless that is negative: then this is no worker process, and main goes on.
 *
 *     const int code = perigee_worker_main(argc, argv);
 *     if (code >= 0) return code;
 */
PERIGEE_API int perigee_worker_main(int argc, char** argv) PERIGEE_NOEXCEPT;

/* --- Contexts ---------------------------------------------------------------------------------------------------------------- */

typedef struct perigee_context perigee_context;

/* Things worth knowing that stop nothing: a damaged checkpoint that was passed over, a data set that another stands in for. Called
 * by a thread that is inside a function of this library, or that reads ahead for one; it must not call back into Perigee. */
typedef void (*perigee_log_function)(void* user, const char* text);

typedef struct perigee_context_options {
  size_t size;
  int32_t threads; /* for each trainer and model; 0: the job's, or one per core */
  perigee_log_function log;
  void* log_user;
  /* Where trainers and models compute: "cpu", "cuda", "cuda:1", "cuda:0-3", "auto" (a GPU where there is one), as `perigee --device`;
   * null: what the job says, and the CPU for models from files. */
  const char* device;
} perigee_context_options;

/* `options` may be null. */
PERIGEE_API perigee_status perigee_context_create(const perigee_context_options* options, perigee_context** out) PERIGEE_NOEXCEPT;
PERIGEE_API void perigee_context_free(perigee_context* context) PERIGEE_NOEXCEPT;
/* The last failure's message, never null, and empty again after a call of the same thread that succeeds; valid in the calling thread until it has
 * asked for sixteen others. */
PERIGEE_API const char* perigee_context_message(const perigee_context* context) PERIGEE_NOEXCEPT;

/* --- Jobs -------------------------------------------------------------------------------------------------------------------- */

typedef struct perigee_job perigee_job;

typedef enum perigee_format {
  PERIGEE_JSON = 0,
  PERIGEE_YAML = 1,
  PERIGEE_LUA = 2 /* a script that returns pg.experiment { ... }; it runs once, now, in this process */
} perigee_format;

/* `text` need not end in a null byte. `name` appears in messages ("job.json"); relative paths in the job start from `folder` (null:
 * the working directory). */
PERIGEE_API perigee_status perigee_job_parse(perigee_context* context, const char* text, size_t length, perigee_format format,
                                             const char* name, const char* folder, perigee_job** out) PERIGEE_NOEXCEPT;
/* A .json, .yaml, .yml or .lua file. */
PERIGEE_API perigee_status perigee_job_load(perigee_context* context, const char* path, perigee_job** out) PERIGEE_NOEXCEPT;
PERIGEE_API void perigee_job_free(perigee_job* job) PERIGEE_NOEXCEPT;
PERIGEE_API const char* perigee_job_message(const perigee_job* job) PERIGEE_NOEXCEPT;

/* Sets "optimizer.lr" or "network.layers.1.out", where places count from 1 as in messages; `value` is JSON, or else a string. */
PERIGEE_API perigee_status perigee_job_set(perigee_job* job, const char* path, const char* value) PERIGEE_NOEXCEPT;
/* The canonical JSON document: equal for equal jobs, whichever front-end wrote them. */
PERIGEE_API perigee_status perigee_job_json(perigee_job* job, char** json) PERIGEE_NOEXCEPT;

/* --- Data that live in the calling program ----------------------------------------------------------------------------------- */

typedef enum perigee_dtype {
  PERIGEE_F32 = 1,
  PERIGEE_F64 = 2,
  PERIGEE_F16 = 3,
  PERIGEE_BF16 = 4,
  PERIGEE_I32 = 5,
  PERIGEE_I64 = 6,
  PERIGEE_U8 = 7,
  PERIGEE_BOOL = 8
} perigee_dtype;

#define PERIGEE_MAX_RANK 8

/* How a field serves another one; a job may say it too ("data": {"lengths": {"x": "n"}}). */
typedef enum perigee_role {
  PERIGEE_NO_ROLE = 0,
  PERIGEE_LENGTH = 1, /* how many steps of the last axis are there: an integer for each example */
  PERIGEE_MASK = 2,   /* 0 or 1 for each of these steps */
  PERIGEE_WEIGHT = 3, /* how much the example, or each step, counts in losses and figures */
  PERIGEE_SEGMENT = 4 /* with which step, from 1 on, the sequence of each step begins: i64, where several lie in a row */
} perigee_role;

/* One array of each example. The network sees `dtype`: PERIGEE_F32 for numbers, PERIGEE_I64 with rank 0 for class labels. */
typedef struct perigee_field {
  size_t size;
  const char* name;    /* "x", "y", or a name that the job's "inputs" and "target" use */
  perigee_dtype dtype; /* 0: PERIGEE_F32 */
  int32_t rank;        /* of one example, without the batch */
  int64_t shape[PERIGEE_MAX_RANK];
  int64_t classes; /* labels lie in [0, classes); 0: not a label */
  /* Only for perigee_source_from_arrays: example i lies at data + i * stride. */
  const void* data;
  perigee_dtype stored; /* what the memory holds; it is converted while it is read; 0: dtype */
  int64_t stride;       /* bytes; 0: packed, row-major */
  float scale;          /* for u8 read as f32: multiplied by it; 0: 1 */
  const char* of;       /* of a field with a role: the one that it serves; null for a weight: all targets */
  int32_t role;         /* a perigee_role; 0: none */
} perigee_field;

typedef struct perigee_source perigee_source;

/* Examples in the caller's memory, which is read in place while training runs and never copied as a whole. It must stay valid and
 * unchanged until `release` is called (from any thread), or, without one, until all handles that use the source are freed. */
PERIGEE_API perigee_status perigee_source_from_arrays(perigee_context* context, int64_t examples, const perigee_field* fields,
                                                      int32_t field_count, void (*release)(void* user), void* user,
                                                      perigee_source** out) PERIGEE_NOEXCEPT;

/* Which example to read; random draws of a source should depend on nothing else, so that runs can be repeated and resumed. */
typedef struct perigee_read_key {
  int64_t index;
  uint64_t epoch;
  uint64_t seed;
} perigee_read_key;

/* A data source of the caller's own. */
typedef struct perigee_source_definition {
  size_t size;
  const char* description; /* for messages: "sensor log (5000 records)" */
  int64_t examples;        /* in one epoch; may be huge for an endless stream */
  const perigee_field* fields;
  int32_t field_count;
  /* Writes each field of one example, row-major, to slots[i]. Called by several threads at once unless `serial`. It may block, as a
   * stream does that waits for its next example; to free a trainer, end the waiting first. Non-zero: failure, with a text put into
   * `message` (null-terminated). */
  int (*read)(void* user, const perigee_read_key* key, void* const* slots, char* message, size_t message_bytes);
  void (*release)(void* user); /* called once when nothing uses the source any more; may be null */
  void* user;
  int32_t serial; /* non-zero: calls of `read` take turns */
  int32_t cheap;  /* non-zero: reading costs little more than copying, so no thread reads ahead */
  int32_t live;   /* non-zero: a stream; nothing is read before the first step. Train it with "shuffle": false */
} perigee_source_definition;

PERIGEE_API perigee_status perigee_source_create(perigee_context* context, const perigee_source_definition* definition,
                                                 perigee_source** out) PERIGEE_NOEXCEPT;
/* No examples of its own: it only says what they look like. For trainers that are fed by perigee_trainer_feed. */
PERIGEE_API perigee_status perigee_source_declare(perigee_context* context, const perigee_field* fields, int32_t field_count,
                                                  perigee_source** out) PERIGEE_NOEXCEPT;
/* A table whose columns another library of the program has in memory (pyarrow, polars, DuckDB, ...), by Arrow's C stream interface; the structs are
 * in perigee_arrow.h. The stream is taken over, and released once, whatever the status; *stream counts as released afterwards. Its batches stay
 * where they are until all handles that use the source are freed; they are released by any thread. `name` begins messages; null: "table".
 *
 * Bound to a job, it is what {"type": "table", "host": name} prepares by steps, with columns of all types of tables; a part of the job that is not
 * described becomes that. {"type": "host", "name": name} reads its columns in place instead, each a field of its name: floats, integers,
 * booleans, fixed-size lists of them, texts of a dictionary as classes. Floats, int32, int64 and uint8 are then never copied as a whole; other integers
 * and booleans are, once. */
struct ArrowArrayStream;
struct ArrowArray;
struct ArrowSchema;
PERIGEE_API perigee_status perigee_source_from_arrow(perigee_context* context, const char* name, struct ArrowArrayStream* stream,
                                                     perigee_source** out) PERIGEE_NOEXCEPT;
/* The same of one batch, by the C data interface: both structs are taken over. */
PERIGEE_API perigee_status perigee_source_from_arrow_array(perigee_context* context, const char* name, struct ArrowSchema* schema,
                                                           struct ArrowArray* array, perigee_source** out) PERIGEE_NOEXCEPT;
PERIGEE_API void perigee_source_free(perigee_source* source) PERIGEE_NOEXCEPT;

/* Makes `source` what {"type": "host", "name": name} means in the job's data, wherever it stands (also inside a "map" with its
 * transforms). With name "train", "test" or "validation", a job that lacks that part gets it. */
PERIGEE_API perigee_status perigee_job_bind(perigee_job* job, const char* name, perigee_source* source) PERIGEE_NOEXCEPT;

/* --- Ops and data for all processes --------------------------------------------------------------------------------------------- */

/* The following holds for the whole process and its every context, cannot be undone, and is best done first in main, before
 * perigee_worker_main: worker processes are this program, started again, and must know the same ops and data. */

/* A contiguous, row-major array. */
typedef struct perigee_array {
  perigee_dtype dtype; /* PERIGEE_F32, or PERIGEE_F64 where the job's precision is that */
  int32_t rank;
  int64_t shape[PERIGEE_MAX_RANK];
  void* data;
} perigee_array;

#define PERIGEE_MAX_OPERANDS 8

/* An op of the caller's own. It is named in a traced program as {"op": "host", "attrs": {"name": ..., <option>: ...}}, in C++ by
 * pg::host_op, and works like any other: in layers, differentiated, sliced over threads, in saved models that this program opens.
 * `forward` and `backward` are called by several threads at once, must not fail and must not call into Perigee. */
typedef struct perigee_op_definition {
  size_t size;
  const char* name; /* "mine.swish": with a dot, so that it is never one of the library's */
  int32_t operands; /* 1 to PERIGEE_MAX_OPERANDS */
  /* Bit i: operand i is the same for all examples (a parameter). The others have the examples in dimension 0, and what becomes of one
   * example must not depend on others. */
  uint32_t shared;
  const char* const* options; /* names of numbers that a use of the op may set, and what they are otherwise; at most 16 */
  const double* defaults;
  int32_t option_count;
  /* Sets dtype, rank and shape of *output, which come as those of operand 0; data are null. Non-zero: the operands do not fit, with a
   * text put into `message`. Null: the output is like operand 0. */
  int (*infer)(void* user, const perigee_array* operands, const double* options, perigee_array* output, char* message,
               size_t message_bytes);
  void (*forward)(void* user, const perigee_array* operands, const double* options, const perigee_array* output);
  /* Writes the gradient of every operand (not added to what is there), given that of the output; a shared operand's is summed over the
   * examples at hand. Null: no gradient flows through this op. */
  void (*backward)(void* user, const perigee_array* operands, const double* options, const perigee_array* output,
                   const perigee_array* output_gradient, const perigee_array* gradients);
  void* user; /* lives as long as the process */
} perigee_op_definition;

/* `context` only holds the message. */
PERIGEE_API perigee_status perigee_register_op(perigee_context* context, const perigee_op_definition* definition) PERIGEE_NOEXCEPT;

/* Makes data that {"type": "host", "name": name} means in jobs that bind no source of that name. `open` is called when such a job is
 * opened, by any thread, and makes a source in `context`, which it must not keep; when it fails, it may say why in `message`. */
typedef perigee_status (*perigee_open_source)(void* user, perigee_context* context, perigee_source** out, char* message,
                                              size_t message_bytes);
PERIGEE_API perigee_status perigee_register_source(perigee_context* context, const char* name, perigee_open_source open,
                                                   void* user) PERIGEE_NOEXCEPT;

/* --- Training ---------------------------------------------------------------------------------------------------------------- */

typedef struct perigee_trainer perigee_trainer;
typedef struct perigee_model perigee_model;

typedef struct perigee_report {
  size_t size;
  int64_t step;     /* 1 for the first */
  int64_t epoch;    /* that the batch belonged to, from 0 */
  int64_t examples; /* in the batch */
  int64_t total;    /* examples trained on so far */
  double progress;  /* 0 to 1; 0 when the run has no planned end */
  double loss;      /* mean over the batch, before the update */
  double accuracy;  /* share of the batch classified rightly; -1 when the target is no class label */
  double learning_rate;
  double gradient_norm; /* -1 when the optimiser does not need it */
  int32_t epoch_ends;   /* non-zero: this was the epoch's last batch */
  int32_t finished;     /* non-zero: this was the run's last step */
} perigee_report;

typedef struct perigee_trainer_options {
  size_t size;
  int32_t threads;         /* 0: the context's */
  const char* checkpoints; /* folder for checkpoints on the job's "checkpoint" schedule; null: none are written */
} perigee_trainer_options;

/* Opens the job's data, builds and initialises the network. The job may be freed or changed afterwards. `options` may be null. */
PERIGEE_API perigee_status perigee_trainer_create(perigee_job* job, const perigee_trainer_options* options,
                                                  perigee_trainer** out) PERIGEE_NOEXCEPT;
PERIGEE_API void perigee_trainer_free(perigee_trainer* trainer) PERIGEE_NOEXCEPT;
PERIGEE_API const char* perigee_trainer_message(const perigee_trainer* trainer) PERIGEE_NOEXCEPT;

/* One step: a batch, its gradient, the update. `report` may be null. On failure the parameters are those before the step. */
PERIGEE_API perigee_status perigee_trainer_step(perigee_trainer* trainer, perigee_report* report) PERIGEE_NOEXCEPT;

/* One step on `examples` examples of the caller's, read in place and not after the call: fields[i] is the i-th field of the
 * training source, contiguous, of the type that the field declares. For online learning and loops of one's own. */
PERIGEE_API perigee_status perigee_trainer_feed(perigee_trainer* trainer, const void* const* fields, int32_t field_count, int64_t examples,
                                                perigee_report* report) PERIGEE_NOEXCEPT;

typedef struct perigee_run_options {
  size_t size;
  int64_t max_steps; /* then PERIGEE_STOPPED, and another run continues; 0: to the job's end */
  /* Called after every `every_steps` steps (0: each) and after the last one of an epoch, between steps, in the thread that called
   * perigee_trainer_run. It may call anything but perigee_trainer_free. Non-zero: stop. */
  int (*progress)(void* user, const perigee_report* report);
  int64_t every_steps;
  void* user;
} perigee_run_options;

/* Steps until the job's end or a stop; `options` may be null. Other threads may meanwhile read and write parameters, evaluate,
 * predict and save: they get their turn between two steps. */
PERIGEE_API perigee_status perigee_trainer_run(perigee_trainer* trainer, const perigee_run_options* options) PERIGEE_NOEXCEPT;
/* Ends the current run after its step, or the next one before its first. */
PERIGEE_API void perigee_trainer_stop(perigee_trainer* trainer) PERIGEE_NOEXCEPT;
PERIGEE_API int perigee_trainer_finished(perigee_trainer* trainer) PERIGEE_NOEXCEPT;

/* Evaluates on the part "train", "test" or "validation" of the job's data: {"examples": ..., "loss": ..., "accuracy": ..., ...}.
 * Each of the outputs may be null; `accuracy` is -1 when there is none. */
PERIGEE_API perigee_status perigee_trainer_evaluate(perigee_trainer* trainer, const char* part, double* loss, double* accuracy,
                                                    char** json) PERIGEE_NOEXCEPT;

/* The model in training. It shares the trainer's turns and outlives it if need be; free it with perigee_model_free. */
PERIGEE_API perigee_status perigee_trainer_model(perigee_trainer* trainer, perigee_model** out) PERIGEE_NOEXCEPT;

/* Everything that a resume needs; the resumed run ends bit-equal to one that never stopped. */
PERIGEE_API perigee_status perigee_trainer_save_checkpoint(perigee_trainer* trainer, const char* path) PERIGEE_NOEXCEPT;
PERIGEE_API perigee_status perigee_trainer_load_checkpoint(perigee_trainer* trainer, const char* path) PERIGEE_NOEXCEPT;
/* Continues from the newest whole checkpoint in the folder of perigee_trainer_options; *resumed is 0 when it has none. */
PERIGEE_API perigee_status perigee_trainer_resume(perigee_trainer* trainer, int32_t* resumed) PERIGEE_NOEXCEPT;

typedef struct perigee_train_options {
  size_t size;
  int32_t threads;    /* 0: the context's */
  const char* folder; /* the run folder: job, log, checkpoints, report, curves, model; null: nothing is written */
  const char* resume; /* a run folder, which may be `folder`, or a checkpoint file to continue from; null: start anew */
  /* The run's events, as JSON objects: {"event": "start" | "step" | "epoch" | "checkpoint" | "end", ...}; "step" comes at least every 100
   * steps and every second. Called in the thread that called perigee_job_train. Non-zero: stop, with a checkpoint. */
  int (*event)(void* user, const char* json);
  void* user;
  /* Training with several processes, on this machine and on others: see perigee_worker_main. Any of these needs a folder; the job's data
   * must be files, registered, or have "at": "coordinator", which sends what is bound to the job. */
  int32_t workers;     /* worker processes on this machine; with agents, on each of theirs */
  const char* agents;  /* "host:port,host:port": agents that start workers there; needs a secret */
  const char* listen;  /* "[HOST]:PORT" where workers may join by themselves; needs a secret beyond this machine */
  const char* secret;  /* the file with the cluster's secret */
  int32_t min_workers; /* wait until so many are there; 0: 1 */
} perigee_train_options;

/* A whole run as `perigee train` does it: evaluation after each epoch, early stopping, checkpoints, report. *end receives the "end"
 * event; `options` and `end` may be null. For everything in between, use a trainer. */
PERIGEE_API perigee_status perigee_job_train(perigee_job* job, const perigee_train_options* options, char** end) PERIGEE_NOEXCEPT;

/* --- Models ------------------------------------------------------------------------------------------------------------------ */

/* `path`: a model file, or the folder of a run, whose model.safetensors it is. A model file is data only and cannot execute anything. It is
 * checked whole before memory is allocated for it. */
PERIGEE_API perigee_status perigee_model_load(perigee_context* context, const char* path, perigee_model** out) PERIGEE_NOEXCEPT;
/* The bytes are copied. */
PERIGEE_API perigee_status perigee_model_load_memory(perigee_context* context, const void* bytes, size_t byte_count,
                                                     perigee_model** out) PERIGEE_NOEXCEPT;
PERIGEE_API void perigee_model_free(perigee_model* model) PERIGEE_NOEXCEPT;
PERIGEE_API const char* perigee_model_message(const perigee_model* model) PERIGEE_NOEXCEPT;

/* Written to a temporary file, synced and renamed: a failure leaves an older file at `path` as it was. */
PERIGEE_API perigee_status perigee_model_save(perigee_model* model, const char* path) PERIGEE_NOEXCEPT;
PERIGEE_API perigee_status perigee_model_save_memory(perigee_model* model, void** bytes, size_t* byte_count) PERIGEE_NOEXCEPT;

/* A tensor without its numbers. `name` lives as long as the model. */
typedef struct perigee_tensor_info {
  size_t size;
  const char* name; /* "conv1.weight" */
  perigee_dtype dtype;
  int32_t rank;
  int64_t shape[PERIGEE_MAX_RANK];
  size_t bytes;
  int32_t trainable; /* 0 for frozen parameters and for states (running statistics) */
  int32_t state;
} perigee_tensor_info;

/* Parameters come first, then states. */
PERIGEE_API int32_t perigee_model_tensor_count(perigee_model* model) PERIGEE_NOEXCEPT;
PERIGEE_API perigee_status perigee_model_tensor(perigee_model* model, int32_t index, perigee_tensor_info* info) PERIGEE_NOEXCEPT;
/* Copies between a parameter or state and the caller's memory, contiguous and row-major; `byte_count` must be the tensor's. */
PERIGEE_API perigee_status perigee_model_read(perigee_model* model, const char* name, void* data, size_t byte_count) PERIGEE_NOEXCEPT;
PERIGEE_API perigee_status perigee_model_write(perigee_model* model, const char* name, const void* data,
                                               size_t byte_count) PERIGEE_NOEXCEPT;

/* Inputs (index 0, 1, ...) and outputs as predict takes and gives them: the shape is that of one example. */
PERIGEE_API int32_t perigee_model_input_count(perigee_model* model) PERIGEE_NOEXCEPT;
PERIGEE_API perigee_status perigee_model_input(perigee_model* model, int32_t index, perigee_tensor_info* info) PERIGEE_NOEXCEPT;
PERIGEE_API perigee_status perigee_model_output(perigee_model* model, perigee_tensor_info* info) PERIGEE_NOEXCEPT;
/* Raw: nothing of the job's preprocessing is applied; perigee_model_predict_file and _records apply it and give every output.
 * Runs the network forward: inputs[i] is the i-th input of `examples` examples, contiguous. `output` receives examples x output
 * shape numbers of the output's dtype, probabilities where the loss is a classification's; `output_bytes` is its size. */
PERIGEE_API perigee_status perigee_model_predict(perigee_model* model, const void* const* inputs, int32_t input_count, int64_t examples,
                                                 void* output, size_t output_bytes) PERIGEE_NOEXCEPT;

/* --- Prediction from records ------------------------------------------------------------------------------------------------- */

/* Records are what a user has: rows of a table by column names, images, texts, arrays. They go through the transforms that the model's job
 * applies to test data, with what was fitted on its training data, as in `perigee predict`. What a table has and the training data had not
 * goes to the context's log, and stands in the prediction: perigee_prediction_warning. */

typedef enum perigee_record_format {
  PERIGEE_RECORDS_AUTOMATIC = 0, /* by the first bytes; otherwise CSV, or to a model of text a text */
  PERIGEE_RECORDS_CSV = 1,       /* columns by name, in any order; the target and columns that the job drops are not needed */
  PERIGEE_RECORDS_JSON = 2,      /* an object of columns by name, a list of them, an object of lists, or JSON Lines; of a model that is not
                                    of a table the keys are its inputs and the values nested lists */
  PERIGEE_RECORDS_IMAGE = 3,     /* a JPEG or PNG file's bytes */
  PERIGEE_RECORDS_TEXT = 4,
  PERIGEE_RECORDS_NPY = 5, /* a NumPy file's bytes: before the job's transforms */
  PERIGEE_RECORDS_NPZ = 6
} perigee_record_format;

typedef struct perigee_predict_options {
  size_t size;
  const char* const* layers; /* inner layers whose outputs are wanted too, by name; null: none */
  int32_t layer_count;
  int32_t format;   /* a perigee_record_format; of perigee_model_predict_records */
  const char* name; /* begins messages, "order 17"; null: "records" */
  int64_t beams;    /* of a model that was trained with ctc: its label sequences are searched with so many prefixes at a time; 0 or 1: the
                       most probable class of each step */
} perigee_predict_options;

typedef struct perigee_prediction perigee_prediction;

/* A file of any of these kinds, by its name. `options` may be null, here and below. */
PERIGEE_API perigee_status perigee_model_predict_file(perigee_model* model, const char* path, const perigee_predict_options* options,
                                                      perigee_prediction** out) PERIGEE_NOEXCEPT;
/* A file's content. */
PERIGEE_API perigee_status perigee_model_predict_records(perigee_model* model, const void* bytes, size_t byte_count,
                                                         const perigee_predict_options* options, perigee_prediction** out) PERIGEE_NOEXCEPT;
/* A table of the program: its columns are found by name, as those of a file; to a model that is not of a table they are its inputs, and are read in
 * place. The stream is taken over, as by perigee_source_from_arrow. */
PERIGEE_API perigee_status perigee_model_predict_arrow(perigee_model* model, struct ArrowArrayStream* stream,
                                                       const perigee_predict_options* options, perigee_prediction** out) PERIGEE_NOEXCEPT;
PERIGEE_API void perigee_prediction_free(perigee_prediction* prediction) PERIGEE_NOEXCEPT;
PERIGEE_API const char* perigee_prediction_message(const perigee_prediction* prediction) PERIGEE_NOEXCEPT;

PERIGEE_API int64_t perigee_prediction_examples(const perigee_prediction* prediction) PERIGEE_NOEXCEPT;
/* The row, from 0, that an example came from: rows with missing values may be left out. -1: there is no such example. */
PERIGEE_API int64_t perigee_prediction_row(const perigee_prediction* prediction, int64_t example) PERIGEE_NOEXCEPT;

typedef struct perigee_prediction_output_info {
  size_t size;
  const char* name; /* lives as long as the prediction, as does data */
  perigee_dtype dtype;
  int32_t rank;
  int64_t shape[PERIGEE_MAX_RANK]; /* of one example */
  size_t bytes;                    /* of one example */
  int64_t classes;                 /* of a classifier, whose values are probabilities; of two there may be one value, that of class 1 */
  int32_t layer;                   /* non-zero: an inner layer that was asked for */
  const void* data;                /* examples x bytes, one after the other */
} perigee_prediction_output_info;

/* The network's outputs, that of the main loss first, then the layers that were asked for. */
PERIGEE_API int32_t perigee_prediction_output_count(const perigee_prediction* prediction) PERIGEE_NOEXCEPT;
PERIGEE_API perigee_status perigee_prediction_output(perigee_prediction* prediction, int32_t index,
                                                     perigee_prediction_output_info* info) PERIGEE_NOEXCEPT;
/* Null where there is no such class, or it has no name. Lives as long as the prediction. */
PERIGEE_API const char* perigee_prediction_class_name(const perigee_prediction* prediction, int32_t output,
                                                      int64_t number) PERIGEE_NOEXCEPT;
/* The labels that a model trained with ctc reads in an example: how many, and where they lie, as long as the prediction. -1: it is no such
 * model, or there is no such example. Names are those of perigee_prediction_class_name for output 0. */
PERIGEE_API int64_t perigee_prediction_labels(const perigee_prediction* prediction, int64_t example,
                                              const int64_t** labels) PERIGEE_NOEXCEPT;
/* A list of what `perigee predict --json` prints: {"index": 0, "class": 2, "label": "emu", "probabilities": [...]}. */
PERIGEE_API perigee_status perigee_prediction_json(perigee_prediction* prediction, char** json) PERIGEE_NOEXCEPT;
/* The prediction as a table that pyarrow, polars, DuckDB and others read where it lies, also after the prediction is freed: "row", and for each output
 * a column of its name (a number, or fixed-size lists of its shape) and, of a classifier, NAME_class: the most probable class, by its name where it
 * has one (a dictionary), else its number. The caller releases *out, which is all zero where this fails. */
PERIGEE_API perigee_status perigee_prediction_arrow(perigee_prediction* prediction, struct ArrowArrayStream* out) PERIGEE_NOEXCEPT;
/* Remarks on the records, a line each: categories that the training data had not, and rows that were left out. */
PERIGEE_API int32_t perigee_prediction_warning_count(const perigee_prediction* prediction) PERIGEE_NOEXCEPT;
/* Null where there is no such warning. Lives as long as the prediction. */
PERIGEE_API const char* perigee_prediction_warning(const perigee_prediction* prediction, int32_t index) PERIGEE_NOEXCEPT;

/* --- Predictors -------------------------------------------------------------------------------------------------------------- */

/* Answers requests of many threads: those that come while others are computed wait in a queue and are computed together. The threads
 * that ask do the work; a predictor has none of its own, and on the CPU allocates nothing for a request. It computes where its first
 * model does. */
typedef struct perigee_predictor perigee_predictor;

typedef struct perigee_predictor_options {
  size_t size;
  int32_t threads;      /* how many batches are computed at once, each by one thread, at most 64; 0: 1 */
  int32_t max_batch;    /* examples in a batch, at most 1024; 0: 32 */
  int32_t max_queue;    /* examples that may wait; 0: 1024 */
  int32_t fill_wait_us; /* how long a batch that is not full waits for more; 0: not at all */
} perigee_predictor_options;

/* Copies the model's parameters: what becomes of the model afterwards changes nothing. `options` may be null. */
PERIGEE_API perigee_status perigee_predictor_create(perigee_model* model, const perigee_predictor_options* options,
                                                    perigee_predictor** out) PERIGEE_NOEXCEPT;
PERIGEE_API void perigee_predictor_free(perigee_predictor* predictor) PERIGEE_NOEXCEPT;
/* The last message of the functions below but predict, whose messages are in the request. */
PERIGEE_API const char* perigee_predictor_message(const perigee_predictor* predictor) PERIGEE_NOEXCEPT;

typedef struct perigee_request {
  size_t size;
  int64_t timeout_us; /* until it must have been begun; 0: any time. A batch that waits to be filled begins earlier for it */
  uint64_t tag;       /* for perigee_predictor_cancel; 0: none */
  /* Written: */
  uint64_t model;    /* which model answered: 1, and one more after each swap */
  int64_t batch;     /* examples that were computed together */
  char message[256]; /* why this request failed; empty if it did not */
} perigee_request;

/* As perigee_model_predict, for at most max_batch examples. Any number of threads at once; returns when the request is answered, or with
 * PERIGEE_BUSY, PERIGEE_TIMEOUT or PERIGEE_STOPPED (cancelled), and then `output` is untouched; PERIGEE_RESOURCES: its GPU failed.
 * `request` may be null. */
PERIGEE_API perigee_status perigee_predictor_predict(perigee_predictor* predictor, const void* const* inputs, int32_t input_count,
                                                     int64_t examples, void* output, size_t output_bytes,
                                                     perigee_request* request) PERIGEE_NOEXCEPT;
/* From now on a copy of this model answers, while requests go on: each is answered by exactly one model. Its inputs and output must be
 * those of the one before. `number`, which may be null, receives what perigee_request.model says of its answers. */
PERIGEE_API perigee_status perigee_predictor_swap(perigee_predictor* predictor, perigee_model* model, uint64_t* number) PERIGEE_NOEXCEPT;
/* Ends the requests with this tag that wait; those being computed are answered. Returns how many it ended. */
PERIGEE_API int64_t perigee_predictor_cancel(perigee_predictor* predictor, uint64_t tag) PERIGEE_NOEXCEPT;

/* --- Sequences in pieces ----------------------------------------------------------------------------------------------------- */

/* A sequence that a model reads in pieces: each step goes on from where the one before ended, so that the pieces give what the whole sequence
 * gives at once. For models with an input whose last dimension are steps, and whose output has as many, of layers that look back alone:
 * recurrent ones, causal attention, whose keys and values are kept, causal convolutions; a layer that needs later steps is named in the message.
 * Of several inputs the last one with as many steps as the output is read in pieces; the others are a memory, which an encoder reads once.
 * With attention to all steps, or with positions, a session has room for the steps that the model reads at once, then clear it. On the CPU. */
typedef struct perigee_session perigee_session;

/* Copies the model's parameters, unless the session that was opened last has the same, and as many rows: then it costs no more than its state.
 * `rows`: sequences side by side, 1 to 65536. Calls on sessions of one model take turns. */
PERIGEE_API perigee_status perigee_session_open(perigee_model* model, int64_t rows, perigee_session** out) PERIGEE_NOEXCEPT;
PERIGEE_API void perigee_session_free(perigee_session* session) PERIGEE_NOEXCEPT;
PERIGEE_API const char* perigee_session_message(const perigee_session* session) PERIGEE_NOEXCEPT;
/* `x` is rows x input shape with `steps`, at least 1, as the last dimension, `y` likewise of the output; `byte_count` is the size of `y`.
 * Raw, as perigee_model_predict. Allocates nothing. */
PERIGEE_API perigee_status perigee_session_step(perigee_session* session, const void* x, int64_t steps, void* y,
                                                size_t byte_count) PERIGEE_NOEXCEPT;
/* The inputs that are a memory, by number; null beyond the last. The name belongs to the session. */
PERIGEE_API size_t perigee_session_memory_count(const perigee_session* session) PERIGEE_NOEXCEPT;
PERIGEE_API const char* perigee_session_memory_name(const perigee_session* session, size_t i) PERIGEE_NOEXCEPT;
/* What the steps look at: rows x that input's shape, raw. Once each was given, before the first step or later, the next step is the first. */
PERIGEE_API perigee_status perigee_session_remember(perigee_session* session, size_t i, const void* data,
                                                    size_t byte_count) PERIGEE_NOEXCEPT;
/* The next step is the first of a sequence again; the memory stays. */
PERIGEE_API perigee_status perigee_session_clear(perigee_session* session) PERIGEE_NOEXCEPT;
/* What a session carries, as bytes that another one of the same model and rows can go on from. `byte_count` must be state_bytes. */
PERIGEE_API size_t perigee_session_state_bytes(const perigee_session* session) PERIGEE_NOEXCEPT;
PERIGEE_API perigee_status perigee_session_read_state(perigee_session* session, void* data, size_t byte_count) PERIGEE_NOEXCEPT;
PERIGEE_API perigee_status perigee_session_write_state(perigee_session* session, const void* data, size_t byte_count) PERIGEE_NOEXCEPT;

/* --- Tensors ----------------------------------------------------------------------------------------------------------------- */

/* Numbers, or what stands for them while a function is recorded. What a handle looks at never changes: shape, dtype, memory; the numbers there do
 * by perigee_tensor_assign, perigee_op_into, an argument that was given away, and by the program itself. Windows and views share memory.
 * The program must order its writes of numbers against other threads' reads. Places and axes count from 0, and from the end with -1. */
typedef struct perigee_tensor perigee_tensor;

/* Row-major. Copies `byte_count` bytes, which must be what the shape takes; with `data` null and byte_count 0, zeros. */
PERIGEE_API perigee_status perigee_tensor_create(perigee_context* context, perigee_dtype dtype, int32_t rank, const int64_t* shape,
                                                 const void* data, size_t byte_count, perigee_tensor** out) PERIGEE_NOEXCEPT;
/* The caller's memory, without copying: element (i, j) lies at data + i * strides[0] + j * strides[1], in elements of the dtype, at an address
 * that suits it; `strides` null: row-major. It must stay valid until `release` is called, which any thread does when nothing looks at it
 * any more; `release` may be null, and is not called when this fails. */
PERIGEE_API perigee_status perigee_tensor_borrow(perigee_context* context, perigee_dtype dtype, int32_t rank, const int64_t* shape,
                                                 const int64_t* strides, void* data, void (*release)(void* user), void* user,
                                                 perigee_tensor** out) PERIGEE_NOEXCEPT;
/* A plain number: among operands it takes the dtype of the tensors, as an argument of a recorded function it may change from call to call. */
PERIGEE_API perigee_status perigee_tensor_number(perigee_context* context, double value, perigee_tensor** out) PERIGEE_NOEXCEPT;
PERIGEE_API void perigee_tensor_free(perigee_tensor* tensor) PERIGEE_NOEXCEPT;
PERIGEE_API const char* perigee_tensor_message(const perigee_tensor* tensor) PERIGEE_NOEXCEPT;

typedef struct perigee_view {
  size_t size;
  perigee_dtype dtype;
  int32_t rank;
  int64_t shape[PERIGEE_MAX_RANK];
  int64_t strides[PERIGEE_MAX_RANK]; /* in elements; negative in a window that runs backwards, 0 where elements are repeated */
  int64_t elements;
  void* data;         /* the first element, valid as long as the handle; null for a recorded value, which has no numbers yet */
  int32_t contiguous; /* non-zero: row-major without gaps */
  int32_t number;     /* non-zero: made by perigee_tensor_number, or of such numbers alone */
} perigee_view;

PERIGEE_API perigee_status perigee_tensor_view(perigee_tensor* tensor, perigee_view* view) PERIGEE_NOEXCEPT;
/* Copies the elements out, row-major, whatever the strides; `byte_count` must be what they take. */
PERIGEE_API perigee_status perigee_tensor_read(perigee_tensor* tensor, void* data, size_t byte_count) PERIGEE_NOEXCEPT;
/* Writes `value`, which broadcasts to the target's shape and is converted to its dtype, into the target's memory. */
PERIGEE_API perigee_status perigee_tensor_assign(perigee_tensor* target, perigee_tensor* value) PERIGEE_NOEXCEPT;

typedef enum perigee_index_kind {
  PERIGEE_AT = 0,      /* one place, `start`; the dimension goes */
  PERIGEE_RANGE = 1,   /* from `start` to before `stop`, by `step` (0: 1); a negative step runs backwards */
  PERIGEE_WHOLE = 2,   /* the dimension as it is */
  PERIGEE_NEW_AXIS = 3 /* a dimension of size 1, that the tensor does not have */
} perigee_index_kind;

/* As the `stop` of a range: behind the last place in its direction. As the `start` of one that runs backwards: the last place. */
#define PERIGEE_END INT64_MAX

typedef struct perigee_index {
  int32_t kind; /* a perigee_index_kind */
  int64_t start;
  int64_t stop;
  int64_t step;
} perigee_index;

/* A window on the same memory; dimensions beyond the entries stay whole. A range that holds places outside the tensor is an error. */
PERIGEE_API perigee_status perigee_tensor_window(perigee_tensor* tensor, const perigee_index* entries, int32_t count,
                                                 perigee_tensor** out) PERIGEE_NOEXCEPT;

/* Any op of the library by name ("add", "matmul", "reduce_sum", "conv2d", ..., src/api/README.md), computed at once; or recorded, when an input is a
 * value of a function that is being recorded. `inputs` may hold null for an optional operand; `options` is a JSON object or null. The op's results go
 * to `outputs`, at most `output_count` of them; where it has fewer, the others become null. */
PERIGEE_API perigee_status perigee_op(perigee_context* context, const char* name, perigee_tensor* const* inputs, int32_t input_count,
                                      const char* options, perigee_tensor** outputs, int32_t output_count) PERIGEE_NOEXCEPT;
/* The result of an element-wise op is put into the target's memory; the target may be among the inputs. */
PERIGEE_API perigee_status perigee_op_into(perigee_tensor* target, const char* name, perigee_tensor* const* inputs,
                                           int32_t input_count) PERIGEE_NOEXCEPT;
/* Where the draws of this context's "rand", "randn", "randint" and "randperm" start; 0 in a new context. */
PERIGEE_API perigee_status perigee_seed(perigee_context* context, uint64_t seed) PERIGEE_NOEXCEPT;

/* Tensors of a file by name: .npy, .npz, .safetensors, .csv, .png, .jpg (read only). Those of formats that hold one tensor have an empty name. */
typedef struct perigee_tensor_file perigee_tensor_file;

PERIGEE_API perigee_status perigee_tensor_file_load(perigee_context* context, const char* path, perigee_tensor_file** out) PERIGEE_NOEXCEPT;
PERIGEE_API void perigee_tensor_file_free(perigee_tensor_file* file) PERIGEE_NOEXCEPT;
PERIGEE_API const char* perigee_tensor_file_message(const perigee_tensor_file* file) PERIGEE_NOEXCEPT;
PERIGEE_API int32_t perigee_tensor_file_count(const perigee_tensor_file* file) PERIGEE_NOEXCEPT;
/* `name` lives as long as the file's handle; it may be null. */
PERIGEE_API perigee_status perigee_tensor_file_get(perigee_tensor_file* file, int32_t index, const char** name,
                                                   perigee_tensor** out) PERIGEE_NOEXCEPT;
/* `names` may be null for formats that hold one tensor. */
PERIGEE_API perigee_status perigee_tensor_file_save(perigee_context* context, const char* path, const char* const* names,
                                                    perigee_tensor* const* tensors, int32_t count) PERIGEE_NOEXCEPT;

/* --- Functions of tensors ------------------------------------------------------------------------------------------------------ */

/* Ops on a trace's arguments are recorded, differentiated on demand, and at the end compiled into a plan. Tensors from outside that take
 * part are read anew at each call of the function. */
typedef struct perigee_trace perigee_trace;
typedef struct perigee_function perigee_function;

PERIGEE_API perigee_status perigee_trace_begin(perigee_context* context, perigee_trace** out) PERIGEE_NOEXCEPT;
/* The next argument: a value of the dtype and shape of `like`, or a number when that is one. */
PERIGEE_API perigee_status perigee_trace_argument(perigee_trace* trace, perigee_tensor* like, perigee_tensor** out) PERIGEE_NOEXCEPT;
/* d root / d target for each target, as values of the same trace; root is one recorded real number. They may be differentiated again. */
PERIGEE_API perigee_status perigee_gradients(perigee_tensor* root, perigee_tensor* const* targets, int32_t count,
                                             perigee_tensor** gradients) PERIGEE_NOEXCEPT;

typedef struct perigee_function_options {
  size_t size;
  int32_t threads;        /* that share a batch; 0: the context's, or one per core */
  const int32_t* donated; /* arguments, from 0, that the caller does not use after a call: results may take their memory */
  int32_t donated_count;
} perigee_function_options;

/* Ends the trace, also when it fails: its values cannot be used any more. Results are its values, or tensors from outside. `options` may be null. */
PERIGEE_API perigee_status perigee_trace_end(perigee_trace* trace, perigee_tensor* const* results, int32_t count,
                                             const perigee_function_options* options, perigee_function** out) PERIGEE_NOEXCEPT;
PERIGEE_API void perigee_trace_free(perigee_trace* trace) PERIGEE_NOEXCEPT;
PERIGEE_API const char* perigee_trace_message(const perigee_trace* trace) PERIGEE_NOEXCEPT;

/* Arguments in order, of the dtypes and shapes that were recorded; `result_count` is the number of results. */
PERIGEE_API perigee_status perigee_function_call(perigee_function* function, perigee_tensor* const* arguments, int32_t argument_count,
                                                 perigee_tensor** results, int32_t result_count) PERIGEE_NOEXCEPT;
PERIGEE_API void perigee_function_free(perigee_function* function) PERIGEE_NOEXCEPT;
PERIGEE_API const char* perigee_function_message(const perigee_function* function) PERIGEE_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
