// `troupe executor` with the fake backend, for tests that kill it.
#include <string>
#include <vector>

#include "actors/executor/process.hpp"
#include "tests/support/fake_backend.hpp"

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const auto arguments = troupe::actors::parse_words(words);
    if (!arguments) return 2;
    if (arguments->model == "missing")
        return troupe::actors::run_executor(*arguments,
            [](const std::function<void(double)>&) -> troupe::result<std::unique_ptr<troupe::actors::backend>> {
                return troupe::fail(troupe::errc::model_missing, "there is no such model");
            });
    return troupe::actors::run_executor(
        *arguments, troupe::test::load_fake({.layer_time = std::chrono::microseconds(300)}));
}
