list(APPEND model_sources sampling/philox.cpp sampling/chain.cpp sampling/dry.cpp sampling/sampler.cpp)
