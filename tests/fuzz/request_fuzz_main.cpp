// libFuzzer entry of HTTP requests and WebSocket frames.
#include <cstddef>
#include <cstdint>

extern "C" int request_fuzz_input(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return request_fuzz_input(data, size);
}
