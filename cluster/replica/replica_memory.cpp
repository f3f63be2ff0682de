#include "cluster/replica/replica_memory.h"

#include <algorithm>

#include "cluster/launch/worker_gpus.h"
#include "cluster/policy/policy.h"
#include "cluster/replica/device_codec.h"
#include "cluster/replica/device_rounds.h"
#include "src/train/device/device_memory.h"

namespace perigee {

size_t replica_device_bytes(const Trainer& trainer, const CudaModule& module) {
  const Json* const averaging = trainer.job().json().find("averaging");
  const std::string& where = trainer.job().where();
  const Params& params = trainer.shape().params();
  if (!averaging || params.dtype() != Dtype::f32 || gpus_of_worker(trainer.job().json(), where) > 1) return 0;
  const Policy policy = read_policy(averaging, where);
  size_t codecs = 0, squares = 0;  // squares: of so many elements at most
  const auto add = [&](const Json& described, CodedForm form) {
    std::string why;
    if (described.is_null()) return;
    const std::unique_ptr<Codec> codec = make_codec(&described, where + ": averaging");
    const std::unique_ptr<CudaCodec> kernels = make_cuda_codec(*codec, *module.codecs, &why);
    if (!kernels) return;  // it works on the host
    codecs += device_codec_bytes(*codec, *kernels, {.form = form, .windows = params.windows(), .block_elements = params.block_elements()});
    if (codec->feedback()) squares = static_cast<size_t>(params.block_elements());
  };
  if (policy.coded_steps() && !policy.adds_parts()) add(policy.codec, CodedForm::packed);
  if (!policy.coded_steps() && !policy.partial()) add(policy.codec, CodedForm::block);
  add(policy.inner.codec, CodedForm::block);
  const bool local_work = policy.what != Policy::What::gradient;
  if (codecs == 0 && local_work) return 0;  // results come from the host, and are measured there
  if (local_work) {
    squares = static_cast<size_t>(params.block_elements());
    codecs += (1 + trainer.optimizer_slots()) * device_bytes(params.block_bytes());  // the last result
  }
  return codecs + DeviceRounds::bytes(params.block_bytes(), squares);
}

}  // namespace perigee
