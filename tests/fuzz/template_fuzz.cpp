// libFuzzer entry of the chat template engine.
#include "tests/fuzz/template_fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    troupe::fuzz::run_template(std::string(reinterpret_cast<const char*>(data), size));
    return 0;
}
