// cuDNN's graph API: descriptors that are dropped by themselves, their attributes, and the first failure of a series of calls.
#pragma once

#include <cudnn.h>

#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/library/libraries.h"

namespace perigee {

struct CudnnFunctions {
  CudnnFunctions() {
    find_function(CudaLibrary::cudnn, "cudnnCreate", &create);
    find_function(CudaLibrary::cudnn, "cudnnDestroy", &destroy);
    find_function(CudaLibrary::cudnn, "cudnnSetStream", &set_stream);
    find_function(CudaLibrary::cudnn, "cudnnGetErrorString", &error_string);
    find_function(CudaLibrary::cudnn, "cudnnBackendCreateDescriptor", &create_descriptor);
    find_function(CudaLibrary::cudnn, "cudnnBackendDestroyDescriptor", &destroy_descriptor);
    find_function(CudaLibrary::cudnn, "cudnnBackendSetAttribute", &set_attribute);
    find_function(CudaLibrary::cudnn, "cudnnBackendGetAttribute", &get_attribute);
    find_function(CudaLibrary::cudnn, "cudnnBackendFinalize", &finalize);
    find_function(CudaLibrary::cudnn, "cudnnBackendExecute", &execute);
  }
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;
};

inline const CudnnFunctions& cudnn() {
  static const CudnnFunctions functions;
  return functions;
}

// After the first failure nothing more is called; `ok` says so.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    status_ = cudnn().create_descriptor(type, &made);
    if (status_ == CUDNN_STATUS_SUCCESS) descriptor_.reset(made);
  }

  template <class T>
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::span<const T> values) {
    if (ok()) status_ = cudnn().set_attribute(get(), name, type, static_cast<int64_t>(values.size()), values.data());
    return *this;
  }
  template <class T>
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    return set(name, type, std::span<const T>(&value, 1));
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other) {
    if (ok()) status_ = other.status_;
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.get());
  }
  CudnnDescriptor& finalize() {
    if (ok()) status_ = cudnn().finalize(get());
    return *this;
  }

  // How many values were there; at most as many as there is room for are filled in.
  template <class T>
  int64_t read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::span<T> room) const {
    int64_t count = 0;
    const cudnnStatus_t status = cudnn().get_attribute(get(), name, type, static_cast<int64_t>(room.size()), &count, room.data());
    return status == CUDNN_STATUS_SUCCESS ? count : 0;
  }

  bool ok() const { return status_ == CUDNN_STATUS_SUCCESS; }
  cudnnStatus_t status() const { return status_; }
  cudnnBackendDescriptor_t get() const { return descriptor_.get(); }

 private:
  struct Drop {
    void operator()(void* descriptor) const { cudnn().destroy_descriptor(descriptor); }
  };
  std::unique_ptr<void, Drop> descriptor_;
  cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

}  // namespace perigee
