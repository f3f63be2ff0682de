#include "src/core/elsewhere.h"

#include <algorithm>

namespace perigee {
namespace {

constexpr std::string_view kInput = "the size of its input is found out: leave it out";
constexpr std::string_view kBatch = "it stands beside the data: data = { train = ..., batch = 32 }";
constexpr std::string_view kParts = "the parts of the data stand in data = { train = ..., validation = ..., test = ..., batch = 32 }";
constexpr std::string_view kStopping =
    "early_stopping = { metric = \"validation.loss\", patience = 3 } watches a figure of data.validation";
constexpr std::string_view kPlateau = "reduce_on_plateau = { metric = \"validation.loss\" } is a key of the job";
constexpr std::string_view kSplit =
    "a source is split: train, validation = source:split { 0.9, 0.1, seed = 1 }; then data = { train = train, validation = validation }";
constexpr std::string_view kSchedule = "a schedule stands where the rate does: optimizer = pg.adam { lr = pg.cosine { from = 1e-3 } }";
constexpr std::string_view kOptimizer = "it is an option of the optimizer: optimizer = pg.adam { lr = 0.001 }";
constexpr std::string_view kTrain =
    "a script returns pg.experiment { ... }, which `perigee train FILE` trains; at the prompt pg.start does";
constexpr std::string_view kPictures = "pictures in a folder for each class are pg.data.images { \"folder\", size = { 32, 32 } }";
constexpr std::string_view kTable = "a table is pg.data.csv { \"file.csv\", target = \"column\" }";
constexpr std::string_view kSource =
    "a source is a value, such as pg.data.csv { \"file.csv\" }; data = { train = source, batch = 32 } reads it";
constexpr std::string_view kDepth = "several layers stand one after the other in pg.sequential";
constexpr std::string_view kWeights =
    "it is an option of the loss: loss = pg.loss.cross_entropy { weights = { 1, 2, 3 } }, or { class_weight = \"balanced\" }";
constexpr std::string_view kBalanced =
    "source:balanced {} draws as many examples of each class: data = { train = train:balanced {}, batch = 32 }";
constexpr std::string_view kHooks = "keys of the job do what callbacks do elsewhere: early_stopping, checkpoint, reduce_on_plateau, log";
constexpr std::string_view kVerbose = "`perigee train --log plain` and --log json say how a run is shown";
constexpr std::string_view kChain = "transforms are listed: source:map { pg.transform.flip {}, pg.transform.rotate { degrees = 10 } }";
constexpr std::string_view kGradients = "pg.grad(f) differentiates; what is computed elsewhere leaves no trace to be switched off";
constexpr std::string_view kLayers = "layers are functions of pg itself: pg.dense { 10 }, pg.conv2d { 16, kernel = 3 }";
constexpr std::string_view kGraph = "pg.sequential { ... } is a chain of layers; pg.graph { inputs = ..., outputs = ... } has any shape";

// Sorted by hand, by what they are about.
constexpr Elsewhere kNames[] = {
    // keys of a job, of its data and of its rules
    {"batch_size", "batch", kBatch},
    {"num_epochs", "epochs", ""},
    {"n_epochs", "epochs", ""},
    {"nb_epoch", "epochs", ""},
    {"max_epochs", "epochs", ""},
    {"max_iter", "steps,epochs", ""},
    {"callbacks", "", kHooks},
    {"verbose", "", kVerbose},
    {"accuracy", "classification",
     "the evaluation 'classification' has it, which a job of classes is judged by; early_stopping = { metric = \"test.accuracy\" } watches "
     "it"},
    {"sampler", "", kBalanced},
    {"WeightedRandomSampler", "", kBalanced},
    {"monitor", "metric", kStopping},
    {"patience", "patience", kStopping},
    {"early_stop", "early_stopping", kStopping},
    {"EarlyStopping", "early_stopping", kStopping},
    {"ReduceLROnPlateau", "reduce_on_plateau", kPlateau},
    {"ModelCheckpoint", "checkpoint", "checkpoint = { every_epochs = 1, keep = 3 } is a key of the job"},
    {"restore_best_weights", "", "the best model is kept whenever a figure is watched"},
    {"min_delta", "min_improvement", ""},
    {"validation_split", "", kSplit},
    {"validation_data", "validation", "it stands beside the training part: data = { train = ..., validation = ... }"},
    {"val_data", "validation", ""},
    {"val", "validation", ""},
    {"test_size", "", kSplit},
    {"train_test_split", "", kSplit},
    {"random_split", "", kSplit},
    {"shuffle", "shuffle", "it stands beside the data, and is so unless told otherwise: data = { train = ..., shuffle = true }"},
    {"num_workers", "threads", "data = { train = ..., threads = 2 } says how many threads read"},
    {"random_state", "seed", ""},
    {"manual_seed", "seed", ""},
    {"set_seed", "seed", ""},
    {"dataloader", "data", kSource},
    {"dataset", "data", kSource},
    {"train_loader", "train", kSource},
    {"model", "network,graph", kGraph},
    {"net", "network", ""},
    {"Module", "graph", kGraph},
    {"criterion", "loss", ""},
    {"loss_fn", "loss", ""},
    {"loss_function", "loss", ""},
    {"optim", "optimizer", ""},
    {"solver", "optimizer", ""},
    {"lr_scheduler", "", kSchedule},
    {"scheduler", "", kSchedule},
    {"lr_schedule", "", kSchedule},
    {"learning_rate", "lr", kOptimizer},
    {"lr", "lr", kOptimizer},
    {"momentum", "momentum", "it is an option of the optimizer: optimizer = pg.nesterov { lr = 0.01, momentum = 0.9 }"},
    {"weight_decay", "weight_decay", "it is an option of pg.adamw; other optimizers go with regularization = { l2 = 1e-4 }"},
    {"class_weight", "class_weight", kWeights},
    {"class_weights", "weights", kWeights},
    {"sample_weight", "weights", "a field of the data has the weights: data = { train = ..., weights = \"w\" }"},
    {"gradient_accumulation_steps", "accumulate", ""},
    {"clip_grad_norm", "clip", ""},
    {"clipnorm", "clip", ""},
    {"max_grad_norm", "clip", ""},
    {"gpu", "device", "device = \"cuda\" is a key of the job"},
    {"use_gpu", "device", "device = \"cuda\" is a key of the job"},
    {"quiet", "", kVerbose},
    {"fp16", "", "precision = \"fp16\" is a key of the job"},
    {"betas", "beta1", ""},
    {"eps", "epsilon", ""},
    {"step_size", "every", ""},
    {"gamma", "rate", ""},
    {"T_max", "", "the schedule lasts as long as the run: leave it out"},
    // options of layers
    {"units", "out,units", ""},
    {"filters", "out", ""},
    {"out_features", "out", ""},
    {"out_channels", "out", ""},
    {"hidden_size", "units,out", ""},
    {"hidden_dim", "units,out", ""},
    {"embedding_dim", "out", ""},
    {"output_dim", "out", ""},
    {"num_embeddings", "size", ""},
    {"vocab_size", "size", ""},
    {"in_features", "", kInput},
    {"in_channels", "", kInput},
    {"input_size", "", kInput},
    {"input_shape", "", kInput},
    {"input_dim", "size", kInput},
    {"kernel_size", "kernel", ""},
    {"pool_size", "kernel", ""},
    {"filter_size", "kernel", ""},
    {"strides", "stride", ""},
    {"dilation_rate", "dilation", ""},
    {"num_layers", "layers", kDepth},
    {"num_heads", "heads", ""},
    {"use_bias", "bias", ""},
    {"p", "rate", ""},
    {"kernel_initializer", "weight_init", ""},
    {"bias_initializer", "bias_init", ""},
    {"kernel_regularizer", "regularization", ""},
    {"return_sequences", "returns", ""},
    {"batch_first", "", "examples come first in every batch: leave it out"},
    // layers
    {"Linear", "dense", "a layer of weights is pg.dense { 10 }"},
    {"fully_connected", "dense", ""},
    {"InnerProduct", "dense", ""},
    {"Convolution", "conv2d", ""},
    {"convolution2d", "conv2d", ""},
    {"Conv2DTranspose", "deconv2d", ""},
    {"ConvTranspose2d", "deconv2d", ""},
    {"MaxPooling2D", "maxpool", ""},
    {"MaxPool2d", "maxpool", ""},
    {"SpatialMaxPooling", "maxpool", ""},
    {"MaxPooling1D", "maxpool1d", ""},
    {"AveragePooling2D", "avgpool", ""},
    {"AvgPool2d", "avgpool", ""},
    {"AveragePooling1D", "avgpool1d", ""},
    {"GlobalAveragePooling2D", "global_pool", ""},
    {"GlobalAveragePooling1D", "global_pool", ""},
    {"GlobalMaxPooling2D", "global_pool", ""},
    {"AdaptiveAvgPool2d", "global_pool", ""},
    {"BatchNormalization", "batchnorm", ""},
    {"BatchNorm1d", "batchnorm", ""},
    {"BatchNorm2d", "batchnorm", ""},
    {"SpatialBatchNormalization", "batchnorm", ""},
    {"LayerNormalization", "layernorm", ""},
    {"Dropout2d", "spatial_dropout", ""},
    {"UpSampling2D", "upsampling", ""},
    {"ZeroPadding2D", "zero_padding", ""},
    {"MultiHeadAttention", "attention", ""},
    {"Concatenate", "concat", ""},
    {"TransformerEncoderLayer", "transformer", ""},
    {"Functional", "graph", kGraph},
    {"nn", "", kLayers},
    {"layers", "layers", kLayers},
    {"keras", "", kLayers},
    {"Activation", "activation", "it is an option of layers: pg.dense { 10, activation = \"relu\" }, and a layer of its name: pg.relu {}"},
    // losses
    {"CrossEntropyLoss", "cross_entropy", ""},
    {"CategoricalCrossentropy", "cross_entropy", ""},
    {"SparseCategoricalCrossentropy", "cross_entropy", ""},
    {"BCELoss", "binary_cross_entropy", "loss = \"binary_cross_entropy\""},
    {"BCEWithLogitsLoss", "binary_cross_entropy", "loss = \"binary_cross_entropy\""},
    {"BinaryCrossentropy", "binary_cross_entropy", "loss = \"binary_cross_entropy\""},
    {"MSELoss", "mse", "loss = \"mse\""},
    {"MeanSquaredError", "mse", "loss = \"mse\""},
    {"L1Loss", "mae", "loss = \"mae\""},
    {"MeanAbsoluteError", "mae", "loss = \"mae\""},
    {"SmoothL1Loss", "huber", "loss = \"huber\""},
    {"HuberLoss", "huber", "loss = \"huber\""},
    {"NLLLoss", "negative_log_likelihood", "loss = \"negative_log_likelihood\""},
    {"KLDivLoss", "kl_divergence", "loss = \"kl_divergence\""},
    // schedules
    {"StepLR", "step", ""},
    {"ExponentialLR", "exponential", ""},
    {"ExponentialDecay", "exponential", ""},
    {"CosineAnnealingLR", "cosine", ""},
    {"CosineDecay", "cosine", ""},
    {"CosineAnnealingWarmRestarts", "restarts", ""},
    {"OneCycleLR", "one_cycle", ""},
    // data
    {"read_csv", "csv", kTable},
    {"DataFrame", "csv", kTable},
    {"pandas", "csv", kTable},
    {"ImageFolder", "images", kPictures},
    {"image_dataset_from_directory", "images", kPictures},
    {"flow_from_directory", "images", kPictures},
    {"sep", "delimiter", ""},
    {"label", "target", ""},
    {"labels", "target", ""},
    {"y_col", "target", ""},
    {"usecols", "features", ""},
    {"na_values", "missing_values", ""},
    {"image_size", "size", ""},
    {"target_size", "size", ""},
    {"color_mode", "channels", ""},
    // transforms
    {"augment", "", kChain},
    {"augmentation", "", kChain},
    {"transform", "transforms", kChain},
    {"ToTensor", "", "pictures are read as numbers from 0 to 1: leave it out"},
    {"Compose", "", kChain},
    {"RandomCrop", "crop", ""},
    {"RandomHorizontalFlip", "flip", ""},
    {"RandomFlip", "flip", ""},
    {"RandomRotation", "rotate", ""},
    {"RandomResizedCrop", "resized_crop", ""},
    {"RandomErasing", "erase", ""},
    {"ColorJitter", "colour", ""},
    {"GaussianBlur", "blur", ""},
    {"StandardScaler", "standardize", ""},
    {"MinMaxScaler", "minmax", ""},
    // what is called
    {"fit", "", kTrain},
    {"train", "train",
     "`perigee train FILE` trains a script's job; at the prompt pg.start does; what is learned from is data = { train = ... }"},
    {"test", "test", kParts},
    {"validation", "validation", kParts},
    {"x_train", "", kParts},
    {"batch", "batch", kBatch},
    {"from_numpy", "", "pg.load \"file.npy\" reads NumPy's files, pg.tensor { ... } takes lists"},
    {"no_grad", "", kGradients},
    {"load_state_dict", "", "pg.load_model \"RUN\" gives a trained network; pretrained = \"RUN\" begins a job with one"},
};

std::string bare_name(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (c != '_') text += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

const Elsewhere* entry_of(std::string_view name) {
  if (name.size() > 64) return nullptr;  // none is as long
  const std::string wanted = bare_name(name);
  for (const Elsewhere& each : kNames)
    if (bare_name(each.name) == wanted) return &each;
  return nullptr;
}

std::string meant_by(const Elsewhere& entry, const std::vector<std::string>& known) {
  for (std::string_view rest = entry.here; !rest.empty();) {
    const std::string_view each = rest.substr(0, rest.find(','));
    if (std::find(known.begin(), known.end(), each) != known.end()) return "did you mean '" + std::string(each) + "'?";
    rest.remove_prefix(std::min(each.size() + 1, rest.size()));
  }
  return "";
}

}  // namespace

std::span<const Elsewhere> names_elsewhere() { return kNames; }

std::string meant_elsewhere(std::string_view name, const std::vector<std::string>& known) {
  const Elsewhere* entry = entry_of(name);
  return entry != nullptr ? meant_by(*entry, known) : "";
}

std::string advice_elsewhere(std::string_view name, const std::vector<std::string>& known) {
  const Elsewhere* entry = entry_of(name);
  if (entry == nullptr) return "";
  std::string hint = meant_by(*entry, known);
  return hint.empty() ? std::string(entry->advice) : hint;
}

}  // namespace perigee
