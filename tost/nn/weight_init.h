// Whether a new model draws its weights.
#pragma once

namespace tost {

enum class WeightInit {
  kOfficial,  // as the official code does; draws from torch's default generator
  kNone,      // Linear weights uninitialised: for loading a checkpoint, or counting
};

}  // namespace tost
