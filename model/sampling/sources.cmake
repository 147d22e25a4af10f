list(APPEND model_sources sampling/philox.cpp sampling/chain.cpp sampling/sampler.cpp)
