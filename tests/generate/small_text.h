// A model of a text in which each character is decided by the four before it, trained until it knows that.
#pragma once

#include <atomic>
#include <string>

#include "src/generate/generation.h"
#include "src/run/checkpoint.h"
#include "src/train/trainer.h"
#include "tests/io/temporary.h"

namespace perigee {

class SmallText {
 public:
  static constexpr const char* kPeriod = "one, two, three; ";

  // `network`: that of the job, for windows of four characters.
  explicit SmallText(const std::string& network = kDense, const std::string& targets = "next", const std::string& more = "",
                     std::string text = "") {
    for (int i = text.empty() ? 0 : 40; i < 40; ++i) text += kPeriod;
    write_file(folder_ / "text.txt", as_bytes(text));
    const Json job = Json::parse(R"({"network": )" + network + R"(, "loss": "cross_entropy", "optimizer": {"type": "adam", "lr": 0.02},
      "epochs": 20, "seed": 3, "data": {"batch": 32, "train": {"type": "text", "file": "text.txt", "context": 4, "targets": ")" +
                                     targets + "\"" + more + "}}}",
                                 "job");
    Trainer trainer(Job(job, "job", folder_.path()), {.threads = 1});
    trainer.run(std::atomic<bool>(false));
    save_model(trainer, folder_ / "model.safetensors");
    loaded_ = load_model(folder_ / "model.safetensors");
  }

  Model& model() { return *loaded_.model; }
  const Json& job() const { return loaded_.job; }
  const Json& fitted() const { return loaded_.fitted; }

  std::string generate(const GenerateOptions& options, std::vector<std::string>* pieces = nullptr) {
    Generation generation(model(), job(), fitted(), options, "test: ");
    std::string text;
    while (const std::optional<std::string> piece = generation.next()) {
      text += *piece;
      if (pieces) pieces->push_back(*piece);
    }
    return text;
  }

  static constexpr const char* kDense =
      R"([{"type": "embedding", "size": 14, "out": 6}, "flatten", {"type": "dense", "out": 32, "activation": "tanh"}, {"type": "dense", "out": 14}])";

 private:
  TemporaryFolder folder_;
  LoadedModel loaded_;
};

}  // namespace perigee
