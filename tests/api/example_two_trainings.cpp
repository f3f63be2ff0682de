// Two trainings at once in one process, each in a thread of its own: they share nothing, and each gives what it gives alone.
#include <perigee.hpp>

#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

int main() {
  std::vector<float> x, sines, squares;  // two functions of the same numbers
  for (int i = 0; i < 1000; ++i) {
    x.push_back(static_cast<float>(i % 200) / 100 - 1);
    sines.push_back(std::sin(3 * x.back()));
    squares.push_back(x.back() * x.back());
  }
  const auto learn = [&](const std::vector<float>& y, double* loss) {
    pg::trainer trainer(pg::experiment{.network = pg::sequential(pg::dense(32, {.activation = pg::tanh}), pg::dense(1)),
                                       .loss = pg::losses::mse,
                                       .optimizer = pg::adam({.lr = 0.01}),
                                       .data = {.train = pg::arrays({pg::field("x", x, {1}), pg::field("y", y, {1})}), .batch = 20},
                                       .epochs = 40,
                                       .seed = 1,
                                       .threads = 1});
    trainer.run();
    *loss = trainer.evaluate("train").loss;
  };
  double loss_of_sine = 1, loss_of_square = 1;
  std::thread first(learn, std::cref(sines), &loss_of_sine), second(learn, std::cref(squares), &loss_of_square);
  first.join();
  second.join();
  std::printf("sine: loss %.5f, square: loss %.5f\n", loss_of_sine, loss_of_square);
  return loss_of_sine < 0.01 && loss_of_square < 0.01 ? 0 : 1;
}
