"""The test model's tokenizer: one token a byte, written as the JSON that `tokenizers` and transformers read."""

from __future__ import annotations

SPECIAL = ("<|begin|>", "<|end|>", "<|pad|>")
VOCABULARY = 320  # 256 bytes and 64 special ids, a multiple of 64 so that no engine has to pad the embedding


def byte_symbols() -> list[str]:
    """The character that stands for each byte in a byte-level vocabulary (the table GPT-2 introduced).

    Bytes that print as themselves in Latin-1 keep their character; the others take characters from U+0100 on.
    """
    itself = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    symbols: list[str] = []
    borrowed = 0
    for byte in range(256):
        if byte in itself:
            symbols.append(chr(byte))
        else:
            symbols.append(chr(0x100 + borrowed))
            borrowed += 1
    return symbols


def special_tokens() -> list[str]:
    """Texts of the ids from 256 on."""
    return [*SPECIAL, *(f"<|reserved_{i}|>" for i in range(VOCABULARY - 256 - len(SPECIAL)))]


def tokenizer() -> dict[str, object]:
    """tokenizer.json: a byte-level BPE without merges; ids 0-255 are the bytes themselves."""
    added = [
        {
            "id": 256 + i,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, text in enumerate(special_tokens())
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {symbol: i for i, symbol in enumerate([*byte_symbols(), *special_tokens()])},
            "merges": [],
        },
    }


def tokenizer_config(max_length: int) -> dict[str, object]:
    """tokenizer_config.json; `max_length` in tokens."""
    begin, end, pad = SPECIAL
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": begin,
        "eos_token": end,
        "pad_token": pad,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
        "chat_template": "{% for message in messages %}{{ message['content'] }}\n{% endfor %}",
    }
