"""Compares embedctl's token ids with the reference's: every tokenizer class, each of its settings.

usage: sweep.py EMBEDCTL [--only NAME] [--write RESULTS.md]

For every class that transformers registers for a text model, and for every file and setting that can
change ids, a repository of small files is written (no network, no weights). sentence-transformers itself
tokenizes a corpus of many scripts, each text alone, with everything but the network's weights in place;
embedctl does the same by its hidden subcommand. Ids and token types must be equal, or embedctl must
refuse with a reason. Where the reference itself fails, nothing is compared.
"""

import argparse
import collections
import contextlib
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fixtures" / "parity"))
warnings.simplefilter("ignore")

import generate
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.transformer import Transformer
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers.models.auto import tokenization_auto
from transformers.models.dpr import tokenization_dpr_fast  # noqa: F401, before an alias takes its place

CORPUS = [
    *generate.TEXTS,
    "Ein Fuchs springt über den faulen Hund; Größe, Straße, ẞ und ß.",
    "Съешь же ещё этих мягких французских булок",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία ΟΔΥΣΣΕΥΣ Ὀδυσσεύς",
    "صِف خَلقَ خَودِ كَمِثلِ الشَمسِ ۱۲۳ ٤٥٦",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה",
    "ऋषियों को सताने वाले दुष्ट राक्षसों १२३",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า ๑๒๓",
    "키스의 고유조건은 입술끼리 만나야 하고 한국어",
    "いろはにほへと ちりぬるを ｱｲｳ カタカナ ㍿ ㌔",
    "我能吞下玻璃而不伤身体。𠀋𡈽 〇",
    "Tiếng Việt có dấu: Nguyễn Ái Quốc, ớ ợ ử",
    "Zażółć gęślą jaźń, Příliš žluťoučký kůň",
    "ქართული ენა, Հայերեն, አማርኛ, ᏣᎳᎩ, ᠮᠣᠩᠭᠣᠯ",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒻𝒶𝓃𝒸𝓎 ⅷ ﷺ ﬀ ŉ ǆ",
    "a\u0301\u0323 q\u0307\u0323 \u0958 \u212b \u1e9b\u0323",
    "<s>text</s> <pad> <unk> <mask> [CLS] [SEP] [PAD] [UNK] [MASK]",
    " <s> text </s> x<mask>y <mask> z  <mask>",
    "<|endoftext|> <|im_end|><|im_start|>  <|endoftext|>x",
    "special_tok SPECIAL_TOK  special_tok , xspecial_tok special_toks NewTok newtok",
    "``quoted'' \"text\" it's we'll I'VE don't 'S ſ's",
    "spaces \u00a0\u2003\u3000 tabs\t\tnew\n\nlines\r\n \u2028 \u0085 end ",
    "▁under ▁▁ lower_one ▁",
    "1234567890 12 345,678.90 1e-5 ½ ²³ ⁴",
    "zero\u200bwidth\u200djoiner\ufeff\u00adsoft \u0000 \u0001 \u007f",
    "👩‍💻🏳️‍🌈🧑🏽‍🚀 ❤️ ☺︎",
    "ÀÉÎÕÜ àéîõü İıÇçŞşĞğ ŁłŻż",
    "<extra_id_0> <extra_id_99> <unk_2> <eop> <madeupword3> en_XX eng_Latn",
    "word " * 90,
    "x" * 300,
    "東京" * 120,
    "a-b_c/d\\e|f " * 30,
]

LIMIT = 64


# ---------------------------------------------------------------------------------------------------
# Files: the kinds of tokenizer.json that models have.
# ---------------------------------------------------------------------------------------------------


def word_piece(specials=generate.BERT_SPECIALS, lower=True, template=("[CLS]", "[SEP]")):
    tokenizer = generate.wordpiece_tokenizer(lower=lower, specials=specials, template=False)
    if template:
        tokenizer.post_processor = generate.special_template(tokenizer, *template)
    return tokenizer


def byte_bpe(specials=generate.ROBERTA_SPECIALS, template=("<s>", "</s>")):
    return generate.byte_bpe_tokenizer(specials, *(template or (None, None)))


TABLE = generate.charsmap()


def unigram(specials=("<s>", "<pad>", "</s>", "<unk>"), template=("<s>", "</s>"), table=True, last="<mask>"):
    vocab = generate.unigram_vocab(list(specials), 300) + ([(last, 0.0)] if last else [])
    unknown = next(i for i, (piece, _) in enumerate(vocab) if "unk" in piece.lower())
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=unknown))
    if table:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(TABLE), normalizers.Lowercase()])
    else:
        tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    generate.add_specials(tokenizer, [*specials, *([last] if last else [])])
    if template:
        tokenizer.post_processor = generate.special_template(tokenizer, *template)
    return tokenizer


def sentence_piece_bpe(specials=("<unk>", "<s>", "</s>"), template=("<s>", None), bytes_=True):
    """A BPE vocabulary of SentencePiece's kind: marked words, merges, bytes."""
    words = collections.Counter("▁" + word for word in generate.KNOWN.split())
    vocab = list(specials) + ([f"<0x{byte:02X}>" for byte in range(256)] if bytes_ else [])
    characters = generate.ranked(collections.Counter("".join(words.elements())))[:160]
    vocab += [character for character in characters if character not in vocab]
    merges, pieces = [], {word: [c for c in word] for word in words}
    for _ in range(120):
        pairs = collections.Counter()
        for word, count in words.items():
            for pair in zip(pieces[word], pieces[word][1:]):
                if pair[0] in vocab and pair[1] in vocab:
                    pairs[pair] += count
        best = generate.ranked(pairs)[0]
        merges.append(best)
        if "".join(best) not in vocab:
            vocab.append("".join(best))
        for word, parts in pieces.items():
            joined = []
            while parts:
                width = 2 if tuple(parts[:2]) == best else 1
                joined.append("".join(parts[:width]))
                parts = parts[width:]
            pieces[word] = joined
    model = models.BPE(
        vocab={piece: i for i, piece in enumerate(vocab)}, merges=merges, unk_token="<unk>", fuse_unk=True,
        byte_fallback=bytes_,
    )  # fmt: skip
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    generate.add_specials(tokenizer, list(specials))
    if template:
        tokenizer.post_processor = generate.special_template(tokenizer, *template)
    return tokenizer


def ended_bpe(specials=("<|startoftext|>", "<|endoftext|>"), template=None):
    """A BPE vocabulary whose words end with a mark."""
    text = normalizers.BertNormalizer(lowercase=True).normalize_str(generate.KNOWN)
    words = collections.Counter(text.split())
    characters = generate.ranked(collections.Counter("".join(words)))[:120]
    bytes_ = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = list(dict.fromkeys([*specials, *characters, *bytes_, *(c + "</w>" for c in [*characters, *bytes_])]))
    merges = []
    for word in generate.ranked(words)[:60]:
        parts = [*word[:-1], word[-1] + "</w>"]
        while len(parts) > 1 and all(part in vocab for part in parts):
            merges.append((parts[-2], parts[-1]))
            parts = [*parts[:-2], parts[-2] + parts[-1]]
            if parts[-1] not in vocab:
                vocab.append(parts[-1])
    merges = [pair for pair in dict.fromkeys(merges) if pair[0] in vocab and pair[1] in vocab and "".join(pair) in vocab]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: i for i, piece in enumerate(vocab)}, merges=merges, unk_token=specials[-1],
            end_of_word_suffix="</w>",
        )
    )  # fmt: skip
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    generate.add_specials(tokenizer, list(specials))
    if template:
        tokenizer.post_processor = generate.special_template(tokenizer, *template)
    return tokenizer


ALBERT = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
FUNNEL = ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>", "<s>", "</s>"]
GEMMA = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")

# The settings that a class has beside those that all have.
BERT_SETTINGS = {
    "do_lower_case": [True, False, None],
    "strip_accents": [True, False],
    "tokenize_chinese_chars": [False],
    "unk_token": ["[SEP]"],
    "cls_token": ["[MASK]"],
    "sep_token": ["[PAD]"],
}
PREFIX = {"add_prefix_space": [True, False]}
UNIGRAM_NAMES = {"unk_token": ["<pad>"], "bos_token": ["<pad>"], "eos_token": ["<mask>"]}

CLASSES = {
    "BertTokenizer": ("bert", [word_piece, lambda: word_piece(template=None)], BERT_SETTINGS),
    "DistilBertTokenizer": ("distilbert", [word_piece, lambda: word_piece(lower=False)], BERT_SETTINGS),
    "ElectraTokenizer": ("electra", [word_piece], BERT_SETTINGS),
    "LayoutLMTokenizer": ("layoutlm", [word_piece], BERT_SETTINGS),
    "LxmertTokenizer": ("lxmert", [word_piece], BERT_SETTINGS),
    "MobileBertTokenizer": ("mobilebert", [word_piece], BERT_SETTINGS),
    "SqueezeBertTokenizer": ("squeezebert", [word_piece], BERT_SETTINGS),
    "ConvBertTokenizer": ("convbert", [word_piece, lambda: word_piece(lower=False)], BERT_SETTINGS),
    "DPRQuestionEncoderTokenizer": ("dpr", [lambda: word_piece(lower=False)], BERT_SETTINGS),
    "DPRContextEncoderTokenizer": ("dpr", [lambda: word_piece(lower=False)], BERT_SETTINGS),
    "DPRContextEncoderTokenizerFast": ("dpr", [lambda: word_piece(lower=False)], BERT_SETTINGS),
    "DPRReaderTokenizer": ("dpr", [lambda: word_piece(lower=False)], BERT_SETTINGS),
    "SplinterTokenizer": ("splinter", [lambda: word_piece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[QUESTION]"])], BERT_SETTINGS),
    "FunnelTokenizer": (
        "funnel", [lambda: word_piece(FUNNEL, template=("<cls>", "<sep>"))],
        {"do_lower_case": [True, False], "strip_accents": [True, False], "tokenize_chinese_chars": [False],
         "clean_text": [False], "wordpieces_prefix": ["@@"], "cls_token": ["<s>"]},
    ),
    "MPNetTokenizer": (
        "mpnet", [lambda: word_piece(["<s>", "<pad>", "</s>", "[UNK]", "<mask>"], template=("<s>", "</s>"))],
        {"do_lower_case": [True, False], "strip_accents": [True, False], "tokenize_chinese_chars": [False],
         "cls_token": ["<mask>"]},
    ),
    "RobertaTokenizer": ("roberta", [byte_bpe, lambda: byte_bpe(template=None)], PREFIX | {"cls_token": ["<mask>"], "sep_token": ["<pad>"], "trim_offsets": [False]}),
    "BartTokenizer": ("bart", [byte_bpe], PREFIX),
    "LEDTokenizer": ("led", [byte_bpe], PREFIX),
    "LongformerTokenizer": ("longformer", [byte_bpe], PREFIX),
    "MvpTokenizer": ("mvp", [byte_bpe], PREFIX),
    "BlenderbotTokenizer": ("blenderbot", [byte_bpe, lambda: byte_bpe(template=None)], PREFIX),
    "DebertaTokenizer": (
        "deberta", [lambda: byte_bpe(["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"], ("[CLS]", "[SEP]"))],
        PREFIX | {"cls_token": ["[MASK]"], "mask_token": ["[PAD]"]},
    ),
    "GPT2Tokenizer": ("gpt2", [lambda: byte_bpe(["<|endoftext|>"], None), lambda: byte_bpe(["<|endoftext|>"], (None, "<|endoftext|>"))], PREFIX | {"add_bos_token": [True], "add_eos_token": [True]}),
    "CodeGenTokenizer": ("codegen", [lambda: byte_bpe(["<|endoftext|>"], None), lambda: byte_bpe(["<|endoftext|>"], (None, "<|endoftext|>"))], PREFIX | {"return_token_type_ids": [True]}),
    "GPTNeoXTokenizer": ("gpt_neox", [lambda: byte_bpe(["<|endoftext|>", "<|padding|>"], (None, "<|endoftext|>")), lambda: byte_bpe(["<|endoftext|>", "<|padding|>"], None)], PREFIX | {"add_bos_token": [True], "add_eos_token": [True]}),
    "Qwen2Tokenizer": ("qwen3", [lambda: byte_bpe(generate.QWEN_SPECIALS, (None, "<|endoftext|>")), lambda: byte_bpe(generate.QWEN_SPECIALS, None)], PREFIX | {"bos_token": ["<|im_end|>"]}),
    "Qwen3_5Tokenizer": ("qwen3_5_text", [lambda: byte_bpe(generate.QWEN_SPECIALS, (None, "<|endoftext|>"))], PREFIX),
    "CohereTokenizer": (
        "cohere", [lambda: byte_bpe(["<PAD>", "<UNK>", "<CLS>", "<SEP>", "<MASK_TOKEN>", "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"], ("<BOS_TOKEN>", None)),
                   lambda: byte_bpe(["<PAD>", "<UNK>", "<BOS_TOKEN>"], None)], PREFIX),
    "BloomTokenizerFast": ("bloom", [lambda: byte_bpe(["<unk>", "<s>", "</s>", "<pad>"], None)], PREFIX),
    "CLIPTokenizer": ("clip_text_model", [ended_bpe], {}),
    "HerbertTokenizer": ("bert", [lambda: ended_bpe(("<s>", "<pad>", "</s>", "<mask>", "<unk>"))], {"cls_token": ["<mask>"]}),
    "OpenAIGPTTokenizer": ("openai-gpt", [lambda: ended_bpe(("<pad>", "<unk>"))], {}),
    "LlamaTokenizer": (
        "llama", [sentence_piece_bpe, lambda: sentence_piece_bpe(template=None), lambda: byte_bpe(["<unk>", "<s>", "</s>"], ("<s>", None))],
        PREFIX | {"legacy": [True, False, None], "add_bos_token": [False, True], "add_eos_token": [True], "use_default_system_prompt": [True]},
    ),
    "CodeLlamaTokenizer": ("llama", [sentence_piece_bpe, lambda: sentence_piece_bpe(template=None)], PREFIX | {"add_eos_token": [True]}),
    "GemmaTokenizer": ("gemma3_text", [lambda: sentence_piece_bpe(GEMMA, ("<bos>", "<eos>")), lambda: sentence_piece_bpe(GEMMA, None)], {"add_bos_token": [True]}),
    "Siglip2Tokenizer": ("gemma", [lambda: sentence_piece_bpe(GEMMA, ("<bos>", "<eos>"))], {}),
    "Tipsv2Tokenizer": ("gemma", [lambda: sentence_piece_bpe(("<pad>", "<unk>"), None)], {"do_lower_case": [False]}),
    "ReformerTokenizer": ("reformer", [lambda: sentence_piece_bpe(("<unk>", "</s>", "<pad>"), (None, "</s>")), lambda: sentence_piece_bpe(("<unk>", "</s>", "<pad>"), None)], {}),
    "NllbTokenizer": ("nllb-moe", [lambda: sentence_piece_bpe(("<s>", "<pad>", "</s>", "<unk>"), None, False)], {"src_lang": ["deu_Latn", "xx"], "legacy_behaviour": [True]}),
    "XLMRobertaTokenizer": ("xlm-roberta", [unigram, lambda: unigram(table=False)], PREFIX | UNIGRAM_NAMES),
    "CamembertTokenizer": ("camembert", [unigram, lambda: unigram(("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"))], PREFIX | UNIGRAM_NAMES),
    "BarthezTokenizer": ("mbart", [unigram, lambda: unigram(table=False, template=None)], PREFIX),
    "MBartTokenizer": ("mbart", [unigram], {"src_lang": ["de_DE", "xx"]}),
    "MBart50Tokenizer": ("mbart", [lambda: unigram(("<s>", "<pad>", "</s>", "<unk>", "en_XX", "de_DE")), unigram], {"src_lang": ["de_DE"]}),
    "XGLMTokenizer": ("xglm", [unigram, lambda: unigram(table=False)], PREFIX),
    "T5Tokenizer": ("t5", [lambda: unigram(("<pad>", "</s>", "<unk>"), (None, "</s>"), last=None), lambda: unigram(("<pad>", "</s>", "<unk>"), None, False, None)], {"extra_ids": [0, 3], "eos_token": ["<pad>"], "legacy": [True]}),
    "LasrTokenizer": ("t5", [lambda: unigram(("<pad>", "</s>", "<unk>"), (None, "</s>"), last=None)], {"extra_ids": [0]}),
    "VideoPrismTokenizer": ("t5", [lambda: unigram(("<pad>", "</s>", "<unk>"), (None, "</s>"), last=None)], {"extra_ids": [0]}),
    "PegasusTokenizer": ("pegasus", [lambda: unigram(("<pad>", "</s>", "<unk>"), (None, "</s>"), last=None), lambda: unigram(("<pad>", "</s>", "<unk>"), None, False, None)], {"offset": [0, 10], "mask_token_sent": [None]}),
    "AlbertTokenizer": ("albert", [lambda: unigram(ALBERT, ("[CLS]", "[SEP]"), last=None), lambda: unigram(ALBERT, None, False, None)], PREFIX | {"do_lower_case": [True, False], "keep_accents": [True, False], "cls_token": ["[MASK]"], "unk_token": ["[SEP]"], "remove_space": [False]}),
    "FNetTokenizer": ("fnet", [lambda: unigram(ALBERT, ("[CLS]", "[SEP]"), last=None), lambda: unigram(ALBERT, None, last=None)], {"do_lower_case": [False], "keep_accents": [True]}),
    "RemBertTokenizer": ("rembert", [lambda: unigram(ALBERT, ("[CLS]", "[SEP]"), last=None), lambda: unigram(ALBERT, None, False, None)], PREFIX | {"do_lower_case": [True], "keep_accents": [False], "cls_token": ["[MASK]"]}),
    "BigBirdTokenizer": ("big_bird", [lambda: unigram(("<unk>", "</s>", "<s>", "<pad>", "[SEP]", "[MASK]", "[CLS]"), ("[CLS]", "[SEP]"), last=None)], PREFIX | {"cls_token": ["<s>"], "unk_token": ["<pad>"]}),
    "XLNetTokenizer": ("xlnet", [lambda: unigram(("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"), None, last=None)], {"do_lower_case": [True], "keep_accents": [True], "remove_space": [False], "unk_id": [2], "cls_token": ["<s>"], "model_input_names": [["input_ids", "token_type_ids"]]}),
    "DebertaV2Tokenizer": ("deberta-v2", [lambda: unigram(("[PAD]", "[CLS]", "[SEP]", "[UNK]"), ("[CLS]", "[SEP]"), last="[MASK]"), lambda: unigram(("[PAD]", "[CLS]", "[SEP]", "[UNK]"), None, False, "[MASK]")], PREFIX | {"do_lower_case": [True], "split_by_punct": [True], "unk_id": [2], "unk_token": ["[PAD]"], "cls_token": ["[MASK]"]}),
    "TokenizersBackend": ("bert", [word_piece, byte_bpe, unigram, sentence_piece_bpe, ended_bpe], {"do_lower_case": [True], "add_prefix_space": [True], "add_bos_token": [True], "add_eos_token": [True]}),
    "PreTrainedTokenizerFast": ("modernbert", [lambda: byte_bpe(["[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"], ("[CLS]", "[SEP]"))], {"add_prefix_space": [True]}),
    "ParakeetTokenizer": ("bert", [unigram], {}),
    "NobodysTokenizer": ("bert", [word_piece], {"do_lower_case": [False]}),
}  # fmt: skip
"""Class: a model type that goes with it, its kinds of file, and its settings with their values."""


def named(tokenizer):
    """Named tokens for a file that has tokens of these contents."""
    usual = {
        "bos_token": ["<s>", "<bos>", "<BOS_TOKEN>", "<|startoftext|>"], "eos_token": ["</s>", "<eos>", "<|im_end|>", "<|endoftext|>"],
        "unk_token": ["[UNK]", "<unk>", "<UNK>"], "sep_token": ["[SEP]", "<sep>", "<SEP>", "</s>"],
        "pad_token": ["[PAD]", "<pad>", "<PAD>", "<|padding|>", "<|endoftext|>", "</s>"], "cls_token": ["[CLS]", "<cls>", "<CLS>", "<s>"],
        "mask_token": ["[MASK]", "<mask>", "<MASK_TOKEN>"],
    }  # fmt: skip
    vocab = tokenizer.get_vocab()
    found = {name: next((text for text in texts if text in vocab), None) for name, texts in usual.items()}
    return {name: text for name, text in found.items() if text}


def flagged(text, **flags):
    return {"__type": "AddedToken", "content": text, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True} | flags  # fmt: skip


def decoder(tokenizer, **flags):
    """added_tokens_decoder with all of the file's tokens; `flags` change their flags by content."""
    listed = {}
    for id_, token in sorted(tokenizer.get_added_tokens_decoder().items()):
        entry = {"content": token.content, "lstrip": token.lstrip, "rstrip": token.rstrip, "normalized": token.normalized, "single_word": token.single_word, "special": token.special}  # fmt: skip
        listed[str(id_)] = entry | flags
    return listed


def everywhere(tokenizer, names):
    """Settings that every class has: files and keys that add tokens, change them or name them."""
    size = tokenizer.get_vocab_size()
    a_name = next(iter(names.values()), "<s>")
    mask = names.get("mask_token", a_name)
    plain = {"lstrip": False, "rstrip": False, "normalized": True, "single_word": False, "special": False}
    yield "as it is", {}, {}
    yield "no named tokens", dict.fromkeys(names, ...), {}
    yield "decoder", {"added_tokens_decoder": decoder(tokenizer)}, {}
    yield "decoder lstrip", {"added_tokens_decoder": decoder(tokenizer, lstrip=True)}, {}
    yield "decoder rstrip", {"added_tokens_decoder": decoder(tokenizer, rstrip=True)}, {}
    yield "decoder single_word", {"added_tokens_decoder": decoder(tokenizer, single_word=True)}, {}
    yield "decoder normalized", {"added_tokens_decoder": decoder(tokenizer, normalized=True)}, {}
    yield "decoder not special", {"added_tokens_decoder": decoder(tokenizer, special=False)}, {}
    yield "decoder less", {"added_tokens_decoder": dict(list(decoder(tokenizer).items())[:1])}, {}
    yield "decoder more", {"added_tokens_decoder": decoder(tokenizer) | {str(size): {"content": "special_tok", **plain}, str(size + 1): {"content": "NewTok", **plain, "single_word": True}}}, {}  # fmt: skip
    yield "decoder more, holes", {"added_tokens_decoder": decoder(tokenizer) | {str(size + 5): {"content": "special_tok", **plain, "special": True, "normalized": False, "rstrip": True}}}, {}  # fmt: skip
    yield "decoder empty", {"added_tokens_decoder": {}}, {}
    yield "extra list", {"extra_special_tokens": ["special_tok", "NewTok"]}, {}
    yield "extra flagged", {"extra_special_tokens": [flagged("special_tok", lstrip=True, rstrip=True)]}, {}
    yield "extra object", {"extra_special_tokens": {"own_token": "special_tok", "other_token": flagged("NewTok", special=False, normalized=True)}}, {}  # fmt: skip
    yield "additional list", {"additional_special_tokens": ["special_tok", a_name]}, {}
    yield "additional null", {"additional_special_tokens": None}, {}
    yield "additional and extra", {"additional_special_tokens": ["NewTok"], "extra_special_tokens": ["special_tok"]}, {}
    yield "additional plain objects", {"additional_special_tokens": [{"content": "special_tok", "lstrip": True}]}, {}
    yield "own name", {"image_token": "special_tok"}, {}
    yield "own name flagged", {"image_token": flagged("special_tok", rstrip=True)}, {}
    yield "mask flagged", {"mask_token": flagged(mask, lstrip=True)}, {}
    yield "mask not there", {"mask_token": "special_tok"}, {}
    yield "all flagged", {name: flagged(text) for name, text in names.items()}, {}
    yield "named plain object", {"mask_token": {"content": mask, "lstrip": True}}, {}
    yield "pad not there", {"pad_token": "NewTok"}, {}
    yield "bos not there", {"bos_token": "special_tok"}, {}
    yield "null names", dict.fromkeys(["bos_token", "cls_token"]), {}
    yield "split special", {"split_special_tokens": True}, {}
    yield "left", {"truncation_side": "left"}, {}
    yield "max_len", {"model_max_length": ..., "max_len": 20}, {}
    yield "limit null", {"model_max_length": None}, {}
    yield "limit 1e30", {"model_max_length": int(1e30)}, {}
    yield "types asked", {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}, {}
    yield "types not asked", {"model_input_names": ["input_ids", "attention_mask"]}, {}
    yield "map", {}, {"special_tokens_map.json": {"mask_token": {"content": mask, "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}, "additional_special_tokens": ["special_tok"]}}  # fmt: skip
    yield "map and decoder", {"added_tokens_decoder": decoder(tokenizer)}, {"special_tokens_map.json": {"cls_token": mask, "bos_token": mask, "sep_token": mask, "eos_token": mask}}  # fmt: skip
    yield "map names", {}, {"special_tokens_map.json": {"cls_token": mask, "bos_token": mask, "unk_token": mask}}
    yield "map extra", {"extra_special_tokens": ["NewTok"]}, {"special_tokens_map.json": {"extra_special_tokens": ["special_tok", {"content": "NewTok", "rstrip": True}], "image_token": "xspecial"}}  # fmt: skip
    yield "added_tokens.json", {}, {"added_tokens.json": {"special_tok": size, "NewTok": size + 1}}
    yield "added_tokens.json special", {"extra_special_tokens": ["NewTok"]}, {"added_tokens.json": {"NewTok": size}}
    yield "added_tokens.json and decoder", {"added_tokens_decoder": decoder(tokenizer)}, {"added_tokens.json": {"special_tok": size}}
    for key, value in [
        ("add_bos_token", True), ("add_eos_token", True), ("model_max_length", 20), ("truncation_side", "left"),
        ("cls_token", mask), ("bos_token", mask), ("do_lower_case", False), ("add_prefix_space", True),
        ("additional_special_tokens", ["special_tok"]), ("split_special_tokens", True), ("padding_side", "left"),
        ("strip_accents", True), ("use_fast", False),
    ]:  # fmt: skip
        yield f"argument {key}", {}, {"sentence_bert_config.json": {"tokenizer_args": {key: value}}}
    for name, config in {
        "max_seq_length": {"max_seq_length": 24, "do_lower_case": False},
        "do_lower_case": {"max_seq_length": 40, "do_lower_case": True},
        "limit of arguments": {"max_seq_length": 40, "tokenizer_args": {"model_max_length": 12}},
        "no special tokens": {"processing_kwargs": {"text": {"add_special_tokens": False}}},
        "no truncation": {"processing_kwargs": {"text": {"truncation": False}}},
        "call's limit": {"processing_kwargs": {"text": {"max_length": 12}, "common": {"max_length": 9}}},
        "call's types": {"processing_kwargs": {"common": {"return_token_type_ids": True}}},
        "call's split": {"processing_kwargs": {"text": {"split_special_tokens": True}}},
    }.items():
        yield f"sentence {name}", {}, {"sentence_bert_config.json": config}


def variants(tokenizer):
    """Changes to the file itself."""
    yield "", tokenizer
    size = tokenizer.get_vocab_size()
    changed = Tokenizer.from_str(tokenizer.to_str())
    changed.add_tokens([AddedToken("special_tok", normalized=True), AddedToken("NewTok", single_word=True, rstrip=True)])
    yield " + added tokens", changed
    changed = Tokenizer.from_str(tokenizer.to_str())
    changed.enable_truncation(9, direction="left")
    changed.enable_padding(length=16, pad_id=size - 1, pad_token=changed.id_to_token(size - 1))
    yield " + baked truncation", changed
    changed = Tokenizer.from_str(tokenizer.to_str())
    text = changed.id_to_token(0)
    changed.post_processor = processors.TemplateProcessing(single=f"{text}:1 $A:2 {text}:1", pair=f"{text} $A $B", special_tokens=[(text, 0)])  # fmt: skip
    yield " + types", changed


def combinations():
    """All repositories: (class, title, model type, tokenizer, tokenizer_config, further files)."""
    for name, (model_type, files, own) in CLASSES.items():
        for number, make in enumerate(files):
            base = make()
            names = named(base)
            config = {"tokenizer_class": name, "model_max_length": LIMIT} | names
            for change, tokenizer in variants(base):
                title = f"file {number}{change}"
                for setting, keys, more in everywhere(tokenizer, names):
                    yield name, f"{title}, {setting}", model_type, tokenizer, config | keys, more
                for key, values in own.items():
                    for value in values:
                        yield name, f"{title}, {key}={value}", model_type, tokenizer, config | {key: value}, {}
            settings = [[(key, value) for value in values] for key, values in own.items()]
            for (first, second) in itertools.combinations(settings, 2):
                for (a, x), (b, y) in itertools.product(first, second):
                    yield name, f"file {number}, {a}={x}, {b}={y}", model_type, base, config | {a: x, b: y}, {}
            without = {key: value for key, value in config.items() if key != "tokenizer_class"}
            yield name, f"file {number}, no class", model_type, base, without, {}
            yield name, f"file {number}, no tokenizer_config", model_type, base, None, {}
            yield name, f"file {number}, class of config.json", model_type, base, without, {"config.json": {"tokenizer_class": name}}
    # Which class applies: every architecture, with every kind of file, with and without a class.
    kinds = {"WordPiece": word_piece(), "BPE": byte_bpe(), "Unigram": unigram(), "SentencePiece BPE": sentence_piece_bpe()}
    classes = [None, "PreTrainedTokenizerFast", "BertTokenizer", "RobertaTokenizerFast", "XLMRobertaTokenizer", "LlamaTokenizer"]
    for model_type in sorted(tokenization_auto.TOKENIZER_MAPPING_NAMES):
        for kind, tokenizer in kinds.items():
            for class_ in classes:
                config = {"model_max_length": LIMIT} | named(tokenizer) | ({"tokenizer_class": class_} if class_ else {})
                yield "by model_type", f"{model_type}, {kind}, {class_}", model_type, tokenizer, config, {}
    # Every name of a class that there is, over a fitting and over another kind of file.
    every = {name for name in dir(transformers) if name.endswith(("Tokenizer", "TokenizerFast"))}
    every |= {name for name in tokenization_auto.TOKENIZER_MAPPING_NAMES.values() if name}
    every -= {"Pop2PianoTokenizer", "AutoTokenizer"}
    for name in sorted(every):
        for kind, tokenizer in kinds.items():
            config = {"tokenizer_class": name, "model_max_length": LIMIT} | named(tokenizer)
            yield "by name", f"{name}, {kind}", "llama", tokenizer, config, {}


# ---------------------------------------------------------------------------------------------------
# The reference, without a network.
# ---------------------------------------------------------------------------------------------------


class Nothing(torch.nn.Module):
    """Stands where the network would be."""

    def __init__(self, config):
        super().__init__()
        self.config, self.one = config, torch.nn.Parameter(torch.zeros(1))

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        raise NotImplementedError


Transformer._load_model = lambda self, path, task, config, *_, **__: Nothing(config)


# CodeGenTokenizer adds to this list of its class when a file asks for token types, for all files after it.
CODEGEN_INPUTS = list(transformers.CodeGenTokenizer.model_input_names)


def reference(folder, texts):
    transformers.CodeGenTokenizer.model_input_names = list(CODEGEN_INPUTS)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        ids, types = [], []
        for text in texts:
            features = model.preprocess([text])
            ids.append(features["input_ids"][0].tolist())
            types.append(features["token_type_ids"][0].tolist() if "token_type_ids" in features else None)
    return ids, types


def write(folder, model_type, tokenizer, config, more):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "1_Pooling").mkdir()
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    files = {
        "config.json": {"model_type": model_type} | more.get("config.json", {}),
        "1_Pooling/config.json": {"embedding_dimension": 8, "pooling_mode": "mean"},
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": generate.NEW_MODULES["Transformer"]},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": generate.NEW_MODULES["Pooling"]},
        ],
    }
    if config is not None:
        files["tokenizer_config.json"] = {key: value for key, value in config.items() if value is not ...}
    for name, content in ({name: value for name, value in more.items() if name != "config.json"} | files).items():
        (folder / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


class Ours:
    def __init__(self, program):
        self.child = subprocess.Popen([program, "__tokenize"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, folder, texts):
        self.child.stdin.write(json.dumps({"model": str(folder), "texts": texts}) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())


def compare(ours, folder, texts):
    """(outcome, detail) of one repository."""
    answer = ours(folder, texts)
    try:
        ids, types = reference(folder, texts)
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return ("both refuse" if "error" in answer else "reference fails"), reason
    if "error" in answer:
        return "refused", answer["error"].replace(str(folder), "MODEL")
    for row, (text, theirs) in enumerate(zip(texts, ids)):
        if answer["ids"][row] != theirs:
            return "different", f"text {text[:60]!r}: {answer['ids'][row][:24]} for {theirs[:24]}"
        given = answer["types"][row] if answer["types"] is not None else None
        if (given or None) != (types[row] or None):
            return "different", f"types of {text[:60]!r}: {given} for {types[row]}"
    return "equal", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("embedctl")
    parser.add_argument("--only", help="classes whose name contains this")
    parser.add_argument("--titles", help="combinations whose title contains this")
    parser.add_argument("--share", default="0/1", help="N/M: of M equal shares, the one numbered N")
    parser.add_argument("--write", help="where the table goes")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    ours = Ours(arguments.embedctl)
    counts, reasons, bad = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter), []
    share, of = map(int, arguments.share.split("/"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "model"
        number = 0
        for name, title, *files in combinations():
            if (arguments.only and arguments.only not in name) or (arguments.titles and arguments.titles not in title):
                continue
            number += 1
            if number % of != share:
                continue
            write(folder, *files)
            texts = CORPUS if not name.startswith("by ") else CORPUS[:: 4]
            outcome, detail = compare(ours, folder, texts)
            counts[name][outcome] += 1
            if outcome == "different":
                bad.append((name, title, detail))
                print(f"DIFFERENT {name}: {title}: {detail}", flush=True)
            elif outcome in ("refused", "reference fails"):
                reasons[outcome, name][f"{detail.replace(str(folder), 'MODEL')} (such as {title})" if outcome == "reference fails" else detail] += 1
    table = ["| class | equal | refused | both refuse | reference fails | different |", "|---|---|---|---|---|---|"]
    columns = ["equal", "refused", "both refuse", "reference fails", "different"]
    for name, row in counts.items():
        table.append(f"| {name} | " + " | ".join(str(row[column]) for column in columns) + " |")
    total = sum(counts.values(), collections.Counter())
    table.append("| all | " + " | ".join(str(total[column]) for column in columns) + " |")
    print("\n".join(table))
    print(json.dumps([[list(key), value] for key, value in ((k, dict(v)) for k, v in reasons.items())], ensure_ascii=False, indent=1), file=sys.stderr)
    if arguments.write:
        Path(arguments.write).write_text("\n".join(table) + "\n", encoding="utf-8")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
