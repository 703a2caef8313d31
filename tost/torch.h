// What this project uses of LibTorch: tensors with autograd, modules, and the few layers that are not
// its own. <torch/torch.h> also holds the optimisers, losses, data loaders and serialisation; every
// source that includes it is compiled twice as long.
#pragma once

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>
#include <torch/utils.h>
