// The operator and a model from C++: mixes random tokens, then classifies a random picture.
#include <torch/torch.h>

#include <iostream>

#include "tost/kinds/vision/config.h"
#include "tost/kinds/vision/image_classifier.h"
#include "tost/ops/tssa.h"

int main() {
  torch::manual_seed(0);
  const auto w = torch::randn({2, 16, 32}, torch::requires_grad());  // [B, N, C]
  const auto temp = torch::ones({4, 1});                             // [H, 1]
  const auto [y, pi] = tost::tssa(w, temp);
  y.square().sum().backward();
  std::cout << "y " << y.sizes() << ", memberships " << pi.sizes() << ", gradient "
            << w.grad().sizes() << "\n";

  const auto model = tost::make_image_classifier(tost::vision_preset("tost_nano_p4"));
  model->eval();
  torch::NoGradGuard no_grad;
  const auto& config = model->config();
  const auto logits =
      model->forward(torch::rand({1, config.in_channels, config.image_size, config.image_size}));
  std::cout << "logits " << logits.sizes() << "\n";
  return pi.sum(1).allclose(torch::ones({2, 16})) ? 0 : 1;
}
