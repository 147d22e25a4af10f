// The file llama-perplexity saves a model's log-probabilities in, so that another model (or another engine) can be
// compared with them. Source of the format: tools/perplexity of the llama.cpp project.
//
// Little-endian: "_logits_", int32 n_ctx, n_vocab, n_chunks, then n_chunks x n_ctx token ids, then for each chunk one
// row for each scored position (n_ctx - 1 - n_ctx / 2 of them): float step, float lowest, n_vocab uint16 (and one more
// if n_vocab is odd). A token's log-probability is step x value + lowest; it is cut off 16 below the best one.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "model/tokenizers/tokenizer.hpp"

namespace troupe::model {

struct logits_header {
    std::int32_t n_ctx = 0, n_vocab = 0, n_chunks = 0;
    std::vector<token_id> tokens;  ///< [n_chunks][n_ctx], without the BOS that replaces the first one of a chunk

    /// The second half of a chunk is scored: position i + first_scored() predicts the token behind it.
    std::int32_t first_scored() const { return n_ctx / 2; }
    std::int32_t rows_per_chunk() const { return n_ctx - 1 - first_scored(); }
    /// uint16 values of one row.
    std::size_t row_words() const { return (static_cast<std::size_t>(n_vocab) + 1) / 2 * 2 + 4; }
};

/// One row of the file from logits [n_vocab]; `row` has row_words() values. Logits must be finite.
void pack_log_probabilities(std::span<const float> logits, std::span<std::uint16_t> row);
/// A stored row, unpacked while it is read.
class packed_row {
 public:
    explicit packed_row(std::span<const std::uint16_t> row);
    float log_probability(std::size_t token) const { return step_ * static_cast<float>(values_[token]) + lowest_; }

 private:
    float step_, lowest_;
    const std::uint16_t* values_;
};

class logits_writer {
 public:
    /// io: the file cannot be written.
    static result<logits_writer> create(const std::string& path, const logits_header& header);
    /// Rows in order, any number at a time.
    result<void> write(std::span<const std::uint16_t> rows);
    /// Everything is in the file; io if the disk was full.
    result<void> finish();

 private:
    logits_writer(std::string path, std::ofstream out) : path_(std::move(path)), out_(std::move(out)) {}
    result<void> checked();
    std::string path_;
    std::ofstream out_;
};

class logits_reader {
 public:
    /// usage with param kl-divergence-base: no such file, another format, cut off, or numbers that cannot be.
    static result<logits_reader> open(const std::string& path);
    const logits_header& header() const { return header_; }
    /// The next rows of the file.
    result<void> read(std::span<std::uint16_t> rows);

 private:
    logits_reader(std::string path, std::ifstream in, logits_header header)
        : path_(std::move(path)), in_(std::move(in)), header_(std::move(header)) {}
    std::string path_;
    std::ifstream in_;
    logits_header header_;
};

}  // namespace troupe::model
