const kSamples = [];
