#include "tost/infer/vision_engine.h"
