// Trains a small convolutional network on images in this program's memory, saves it, loads it and uses it.
#include <cstdio>
#include <perigee.hpp>
#include <vector>

int main() {
  std::vector<unsigned char> pixels, classes(2000);  // 8x8 images: a bright row is class 0, a bright column class 1
  for (int i = 0; i < 2000; ++i) {
    for (int at = 0; at < 64; ++at) pixels.push_back((i % 2 ? at % 8 : at / 8) == i / 2 % 8 ? 255 : i * at % 97);
    classes[i] = i % 2;
  }
  pg::experiment job{
      .network = pg::sequential(pg::conv2d(8, {.kernel = 3, .activation = pg::relu}), pg::maxpool(2), pg::dense(2)),
      .loss = pg::losses::cross_entropy,
      .optimizer = pg::adamw({.lr = pg::cosine({.from = 0.01})}),
      .data = {.train = pg::arrays({pg::field("x", pixels, {1, 8, 8}, 1 / 255.f), pg::labels("y", classes, 2)}), .batch = 50},
      .epochs = 3,
      .seed = 1};
  pg::trainer trainer(job);
  trainer.run([](const pg::report& at) {
    if (at.epoch_ends) std::printf("epoch %d: loss %.4f\n", static_cast<int>(at.epoch) + 1, at.loss);
  });
  trainer.save("rows_and_columns.safetensors");
  const auto model = pg::model::load("rows_and_columns.safetensors");
  std::vector<float> image(64, 0.f);
  for (int row = 0; row < 8; ++row) image[row * 8 + 5] = 1;
  const std::vector<float> probability = model.predict(image);
  std::printf("accuracy %.3f, a column is class 1 with probability %.3f\n", trainer.evaluate("train").accuracy, probability[1]);
  return probability[1] > 0.9 ? 0 : 1;
}
