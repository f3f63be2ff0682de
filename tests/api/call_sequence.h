// Bytes as a sequence of calls of the C ABI, right and wrong ones, with handles freed in any order: none may crash, each must say what is wrong, none
// may write past the memory that it was given. sequences_test plays random bytes, tests/fuzz/api_fuzz those that libFuzzer finds.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "perigee.h"

// A call's violation of the contract.
class BrokenCall : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

class CallSequence {
 public:
  explicit CallSequence(std::span<const uint8_t> bytes);
  ~CallSequence();
  CallSequence(const CallSequence&) = delete;
  CallSequence& operator=(const CallSequence&) = delete;

  // Makes some of all handles, as a start that reaches far.
  void begin();
  // Until the bytes are used up, at most `most` calls. Throws BrokenCall.
  void play(int most);

  int64_t succeeded = 0, failed = 0;

 private:
  using Call = void (CallSequence::*)();
  static std::span<const Call> calls();         // of jobs, trainers, models, predictors
  static std::span<const Call> tensor_calls();  // of tensors and functions

  // Zeros when there are no more bytes.
  uint8_t byte();
  size_t below(size_t n);
  bool rarely() { return below(24) == 23; }
  template <class T, size_t N>
  const T& one_of(const T (&list)[N]) {
    return list[below(N)];
  }
  // A handle of the kind, or null.
  template <class Handle>
  Handle* any(const std::vector<Handle*>& of) {
    return of.empty() || rarely() ? nullptr : of[below(of.size())];
  }
  static void require(bool fine, const char* what, const char* message = "");
  void check(perigee_status status, const char* message);
  template <class Handle>
  void keep(perigee_status status, const char* message, Handle* made, std::vector<Handle*>* to) {
    check(status, message);
    require((made != nullptr) == (status == PERIGEE_OK), "a handle exactly when the call succeeds");
    if (made) to->push_back(made);
  }
  // As programs built against older and newer headers have it.
  template <class Struct>
  struct Sized : Struct {
    unsigned char more[sizeof(Struct)] = {};
  };
  template <class Struct>
  Sized<Struct> sized() {
    Sized<Struct> s{};
    s.size = rarely() ? below(2 * sizeof(Struct)) : sizeof(Struct);
    return s;
  }
  template <class Handle, class Free>
  bool free_any(std::vector<Handle*>* from, Free free) {
    if (from->empty()) return false;
    std::swap((*from)[below(from->size())], from->back());
    free(from->back());
    from->pop_back();
    return true;
  }

  void make_context();
  void parse();
  void change();
  void make_source();
  void bind();
  void open();
  void train();
  void feed();
  void ask();
  void take_model();
  void copy_model();
  void tensors_of_model();
  void predict();
  void predict_records(perigee_model* model);
  void serve();
  void request();
  void swap_model();
  void train_all();
  void free_one();

  void make_tensor();
  void borrow_tensor();
  void make_number();
  void look_at_tensor();
  void window();
  void apply();
  void apply_into();
  void assign();
  void begin_trace();
  void argument();
  void differentiate();
  void end_trace();
  void call_function();
  void free_tensors();
  void keep_tensors(std::span<perigee_tensor*> made);

  std::span<const uint8_t> bytes_;
  std::vector<float> x_;
  std::vector<int64_t> y_;
  std::vector<perigee_context*> contexts_;
  std::vector<perigee_job*> jobs_;
  std::vector<perigee_source*> sources_;
  std::vector<perigee_trainer*> trainers_;
  std::vector<perigee_model*> models_;
  std::vector<perigee_predictor*> predictors_;
  std::vector<perigee_tensor*> tensors_;
  std::vector<perigee_trace*> traces_;
  std::vector<perigee_function*> functions_;
  int64_t borrowed_ = 0, released_ = 0;
  std::vector<std::unique_ptr<std::vector<float>>> lent_;  // memory of the program
};
