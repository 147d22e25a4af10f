// libFuzzer entry of the parts of a Hugging Face folder.
#include <cstddef>
#include <cstdint>

extern "C" int folder_fuzz_input(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return folder_fuzz_input(data, size);
}
