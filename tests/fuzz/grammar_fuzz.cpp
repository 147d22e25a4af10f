// libFuzzer entry of grammars and JSON schemas.
#include "tests/fuzz/grammar_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    troupe::fuzz::run_grammar(std::string(reinterpret_cast<const char*>(data), size));
    return 0;
}
