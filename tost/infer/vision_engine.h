// Image classification without autograd, at the speed of the matrix units: weights laid out once,
// tiles of tokens carried through a whole block while they are in cache.
#pragma once
