#!/usr/bin/env python3
"""Write a model whose text is scripted: after token i always comes next(i). make_chain_model.py SCRIPT.json OUTPUT.gguf

The embedding is the identity and the layers add nothing to it, so a position's logits depend on its token alone; the
output matrix puts next(i) so far ahead that no temperature reaches another token. Split characters, stop strings, invalid
bytes and end tokens can thus be played through a real model file. Needs no packages.

SCRIPT.json:
  "cycle": [element, ...]          what follows a token that is in no list; starts again at its end unless that is an end
                                   token
  "after": {"A": [element, ...]}   what follows that piece instead: the last character of a prompt selects a list
  "chat_template": "..."           Jinja; absent: ChatML; null: the file has none
  "end_tokens": ["<|eot|>", ...]   further control tokens that end an answer; the first is the file's end of turn
  "context", "layers", "ff"        sizes (4096, 1, 64); a large ff slows every step down
An element is a piece of text, a number 0..255 (that byte's token), {"end": true} for </s> or {"end": "<|eot|>"}. A token
has one successor, so no element may occur twice.
"""
import array
import json
import sys

from gguf_bytes import F32, gguf_bytes

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
BASE = [("<unk>", UNKNOWN)] + [(piece, CONTROL) for piece in ("<s>", "</s>", "<|im_start|>", "<|im_end|>")]
BOS, EOS, FIRST_BYTE, HEAD = 1, 2, len(BASE), 64
CHATML = ("{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
          "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


class BadScript(Exception):
    pass


class Vocabulary:
    def __init__(self):
        self.pieces, self.kinds, self.ids = [], [], {}
        byte_tokens = [(f"<0x{b:02X}>", BYTE) for b in range(256)]
        for piece, kind in BASE + byte_tokens + [(chr(c), NORMAL) for c in range(32, 127)]:
            self.add(piece, kind)

    def add(self, text, kind=NORMAL):
        """The id of a piece, new or known."""
        if not isinstance(text, str) or not text:
            raise BadScript(f"{text!r} is no piece")
        piece = text.replace(" ", "\u2581") if kind == NORMAL else text
        if piece not in self.ids:
            self.ids[piece] = len(self.pieces)
            self.pieces.append(piece)
            self.kinds.append(kind)
        return self.ids[piece]

    def element(self, e):
        if isinstance(e, dict):
            token = EOS if e.get("end") is True else self.ids.get(e.get("end"), -1)
            if token < 0 or self.kinds[token] != CONTROL:
                raise BadScript(f"{e!r} names no end token")
            return token
        if isinstance(e, int) and not isinstance(e, bool):
            if e not in range(256):
                raise BadScript(f"{e} is no byte")
            return FIRST_BYTE + e
        return self.add(e)


def successors(script, vocabulary):
    """next(i) for every token."""
    for name in script.get("end_tokens", []):
        vocabulary.add(name, CONTROL)
    cycle = [vocabulary.element(e) for e in script["cycle"]]
    selected = {vocabulary.add(piece): [vocabulary.element(e) for e in elements]
                for piece, elements in script.get("after", {}).items()}
    if not cycle or not all(selected.values()):
        raise BadScript("a list is empty")
    follow, ends = {}, lambda t: vocabulary.kinds[t] == CONTROL
    for tokens in [cycle, *selected.values()]:
        if any(map(ends, tokens[:-1])):
            raise BadScript("an end token may only be last")
        for token, after in zip(tokens, tokens[1:] + tokens[:1]):
            if ends(token):
                continue
            if token in follow or token in selected:
                raise BadScript(f"{vocabulary.pieces[token]!r} would have two successors")
            follow[token] = after
    follow.update({token: tokens[0] for token, tokens in selected.items()})
    return [follow.get(token, cycle[0]) for token in range(len(vocabulary.pieces))]


def metadata(script, vocabulary, n_embd):
    n = len(vocabulary.pieces)
    yield "general.architecture", "string", "llama"
    yield "general.name", "string", "chain"
    yield "general.file_type", "u32", 0
    yield "llama.context_length", "u32", script.get("context", 4096)
    yield "llama.embedding_length", "u32", n_embd
    yield "llama.block_count", "u32", script.get("layers", 1)
    yield "llama.feed_forward_length", "u32", script.get("ff", 64)
    yield "llama.attention.head_count", "u32", n_embd // HEAD
    yield "llama.attention.head_count_kv", "u32", 1
    yield "llama.attention.layer_norm_rms_epsilon", "f32", 1e-5
    yield "llama.rope.dimension_count", "u32", HEAD
    yield "llama.vocab_size", "u32", n
    yield "tokenizer.ggml.model", "string", "llama"
    yield "tokenizer.ggml.pre", "string", "default"
    yield "tokenizer.ggml.tokens", "strings", vocabulary.pieces
    yield "tokenizer.ggml.scores", "f32s", [-float(i) for i in range(n)]
    yield "tokenizer.ggml.token_type", "i32s", vocabulary.kinds
    yield "tokenizer.ggml.bos_token_id", "u32", BOS
    yield "tokenizer.ggml.eos_token_id", "u32", EOS
    yield "tokenizer.ggml.unknown_token_id", "u32", 0
    yield "tokenizer.ggml.add_bos_token", "bool", True
    yield "tokenizer.ggml.add_eos_token", "bool", False
    yield "tokenizer.ggml.add_space_prefix", "bool", False
    if script.get("end_tokens"):
        yield "tokenizer.ggml.eot_token_id", "u32", vocabulary.ids[script["end_tokens"][0]]
    if script.get("chat_template", CHATML) is not None:
        yield "tokenizer.chat_template", "string", script.get("chat_template", CHATML)


def matrix(rows, cols, fill=0.0, entries=()):
    values = array.array("f", [fill]) * (rows * cols)
    for row, col, value in entries:
        values[row * cols + col] = value
    if sys.byteorder == "big":
        values.byteswap()
    return (rows, cols), F32, values.tobytes()


def tensors(script, following, n_embd):
    n, ff = len(following), script.get("ff", 64)
    ones = (n_embd,), F32, matrix(1, n_embd, 1.0)[2]
    yield "token_embd.weight", *matrix(n, n_embd, entries=[(i, i, 1.0) for i in range(n)])
    yield "output_norm.weight", *ones
    yield "output.weight", *matrix(n, n_embd, entries=[(after, i, 10.0) for i, after in enumerate(following)])
    for i in range(script.get("layers", 1)):
        p = f"blk.{i}."
        yield p + "attn_norm.weight", *ones
        yield p + "attn_q.weight", *matrix(n_embd, n_embd, 0.01)
        yield p + "attn_k.weight", *matrix(HEAD, n_embd, 0.01)
        yield p + "attn_v.weight", *matrix(HEAD, n_embd, 0.01)
        yield p + "attn_output.weight", *matrix(n_embd, n_embd)
        yield p + "ffn_norm.weight", *ones
        yield p + "ffn_gate.weight", *matrix(ff, n_embd, 0.01)
        yield p + "ffn_up.weight", *matrix(ff, n_embd, 0.01)
        yield p + "ffn_down.weight", *matrix(n_embd, ff)


def build(script):
    vocabulary = Vocabulary()
    following = successors(script, vocabulary)
    n_embd = -(-len(following) // HEAD) * HEAD
    return gguf_bytes(metadata(script, vocabulary, n_embd), tensors(script, following, n_embd))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], encoding="utf-8") as f:
            data = build(json.load(f))
    except (OSError, BadScript, KeyError, ValueError) as e:
        sys.exit(f"make_chain_model: {sys.argv[1]}: {e}")
    with open(sys.argv[2], "wb") as f:
        f.write(data)


if __name__ == "__main__":
    main()
