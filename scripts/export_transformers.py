"""Export the small transformers of `tests/models/exported/` with both ONNX exporters of PyTorch.

    python scripts/export_transformers.py [--only NAME ...] [--exporter script|dynamo]

Needs torch, transformers and onnxscript (made with torch 2.13.0, transformers 4.57.6, onnxscript 0.7.2), which are no
dependencies of ort-py: the files are committed and CI only reads them. The models are those of the `transformers`
package with two layers, 32 columns and seeded random weights: what counts is the graph that an exporter writes, with
its masks, reshapes, rotary embeddings and caches. Nothing is downloaded.

Each model is written as `<name>.<exporter>.onnx`: `script` is the exporter over TorchScript (`dynamo=False`), `dynamo`
the one over `torch.export`. What they are fed with is made by `tests/support/exported_models.py` from the inputs'
names and types, so that no data has to be stored beside them.
"""

# Type checking runs where torch and transformers are not installed; their classes are Any there.
# mypy: allow-subclassing-any, disable-error-code="import-not-found"

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import onnx
import torch
import transformers
from torch import nn

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "models" / "exported"

SCRIPT_OPSET = 17
"""The newest opset with which the TorchScript exporter still writes LayerNormalization whole."""

DYNAMO_OPSETS = (18, 23)
"""18 is the default of the exporter; from 23 on it writes Attention, RMSNormalization and RotaryEmbedding whole."""

BATCH, LENGTH, PAST, WIDTH, HEADS, LAYERS, WORDS = 2, 6, 5, 32, 4, 2, 40

_Cache = list[torch.Tensor]


@dataclass(frozen=True)
class Case:
    """One model to export.

    Attributes:
        name: Of the files.
        module: Makes the module; called with a fixed seed.
        inputs: Example inputs by name, in order.
        outputs: Names of the outputs.
        dynamic: Names of the dimensions that stay free, by input and axis.
    """

    name: str
    module: Callable[[], nn.Module]
    inputs: dict[str, torch.Tensor]
    outputs: list[str]
    dynamic: dict[str, dict[int, str]] = field(default_factory=dict)


class Plain(nn.Module):
    """A model called with keyword arguments, giving one of its results."""

    def __init__(self, model: nn.Module, names: list[str], result: str) -> None:
        super().__init__()
        self.model, self.names, self.result = model, names, result

    def forward(self, *tensors: torch.Tensor) -> Any:
        arguments = dict(zip(self.names, tensors, strict=True))
        return getattr(self.model(**arguments, use_cache=False, return_dict=True), self.result)


class Encoder(nn.Module):
    """A model of one input, without a cache."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> Any:
        return self.model(x, return_dict=True).last_hidden_state


class Cached(nn.Module):
    """A decoder with keys and values of the past as plain inputs, and the present ones as outputs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, *past: torch.Tensor) -> Any:
        cache = transformers.cache_utils.DynamicCache()
        for layer in range(LAYERS):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        result = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            past_key_values=cache,
            use_cache=True,
            return_dict=True,
        )
        present = [tensor for layer in result.past_key_values.layers for tensor in (layer.keys, layer.values)]
        return (result.logits, *present)


class WhisperDecoder(nn.Module):
    """Whisper's decoder over an encoder's result, with its logits."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.decoder, self.head = model.model.decoder, model.proj_out

    def forward(self, input_ids: torch.Tensor, states: torch.Tensor) -> Any:
        # Without a mask the decoder looks for several texts in one row, with an operator that ONNX does not have.
        mask = torch.ones_like(input_ids)
        found = self.decoder(
            input_ids=input_ids, attention_mask=mask, encoder_hidden_states=states, use_cache=False, return_dict=True
        )
        return self.head(found.last_hidden_state)


def _bert(attention: str = "sdpa") -> Any:
    config = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=WIDTH,
        max_position_embeddings=32,
        attn_implementation=attention,
    )
    return transformers.BertModel(config, add_pooling_layer=False)


def _gpt2() -> Any:
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=32, n_inner=WIDTH
    )
    return transformers.GPT2LMHeadModel(config)


def _llama() -> Any:
    config = transformers.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        intermediate_size=WIDTH,
        max_position_embeddings=32,
    )
    return transformers.LlamaForCausalLM(config)


def _vit() -> Any:
    config = transformers.ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=WIDTH,
        image_size=16,
        patch_size=4,
    )
    return transformers.ViTModel(config, add_pooling_layer=False)


def _whisper() -> Any:
    config = transformers.WhisperConfig(
        vocab_size=WORDS,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=WIDTH,
        decoder_ffn_dim=WIDTH,
        num_mel_bins=8,
        max_source_positions=12,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return transformers.WhisperForConditionalGeneration(config)


def _t5() -> Any:
    config = transformers.T5Config(
        vocab_size=WORDS,
        d_model=WIDTH,
        d_kv=8,
        d_ff=WIDTH,
        num_layers=1,
        num_decoder_layers=1,
        num_heads=HEADS,
        relative_attention_num_buckets=8,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config)


def _words(length: int = LENGTH) -> torch.Tensor:
    return torch.randint(3, WORDS, (BATCH, length))


def _mask(length: int = LENGTH) -> torch.Tensor:
    mask = torch.ones(BATCH, length, dtype=torch.int64)
    mask[1, -1] = 0
    return mask


def _text(mask: str = "length") -> dict[str, dict[int, str]]:
    return {"input_ids": {0: "batch", 1: "length"}, "attention_mask": {0: "batch", 1: mask}}


def _decoder(name: str, make: Callable[[], Any], key_heads: int) -> list[Case]:
    past = {
        f"past_{kind}_{layer}": torch.randn(BATCH, key_heads, PAST, WIDTH // HEADS)
        for layer in range(LAYERS)
        for kind in ("key", "value")
    }
    return [
        Case(
            name,
            lambda: Plain(make(), ["input_ids", "attention_mask"], "logits"),
            {"input_ids": _words(), "attention_mask": _mask()},
            ["logits"],
            _text(),
        ),
        Case(
            f"{name}_past",
            lambda: Cached(make()),
            {"input_ids": _words(2), "attention_mask": torch.ones(BATCH, PAST + 2, dtype=torch.int64), **past},
            ["logits", *[one.replace("past", "present") for one in past]],
            {**_text("total"), **{one: {0: "batch", 2: "past"} for one in past}},
        ),
    ]


def cases() -> list[Case]:
    """All models, in a fixed order."""
    torch.manual_seed(0)
    bert_inputs = {"input_ids": _words(), "attention_mask": _mask()}
    return [
        Case(
            "bert",
            lambda: Plain(_bert(), list(bert_inputs), "last_hidden_state"),
            bert_inputs,
            ["last_hidden_state"],
            _text(),
        ),
        Case(
            "bert_eager",
            lambda: Plain(_bert("eager"), list(bert_inputs), "last_hidden_state"),
            bert_inputs,
            ["last_hidden_state"],
            _text(),
        ),
        *_decoder("gpt2", _gpt2, HEADS),
        *_decoder("llama", _llama, 2),
        Case(
            "vit",
            lambda: Encoder(_vit()),
            {"pixel_values": torch.randn(BATCH, 3, 16, 16)},
            ["last_hidden_state"],
            {"pixel_values": {0: "batch"}},
        ),
        Case(
            "whisper_encoder",
            lambda: Encoder(_whisper().model.encoder),
            {"input_features": torch.randn(BATCH, 8, 24)},
            ["last_hidden_state"],
            {"input_features": {0: "batch"}},
        ),
        Case(
            "whisper_decoder",
            lambda: WhisperDecoder(_whisper()),
            {"input_ids": _words(), "encoder_hidden_states": torch.randn(BATCH, 12, WIDTH)},
            ["logits"],
            {"input_ids": {0: "batch", 1: "length"}, "encoder_hidden_states": {0: "batch"}},
        ),
        Case(
            "t5",
            lambda: Plain(_t5(), ["input_ids", "attention_mask", "decoder_input_ids"], "logits"),
            {"input_ids": _words(), "attention_mask": _mask(), "decoder_input_ids": _words(4)},
            ["logits"],
            {**_text(), "decoder_input_ids": {0: "batch", 1: "target"}},
        ),
    ]


def _by_broadcasting(mask_function: Callable[..., Any], bh_indices: bool = True) -> Callable[..., Any]:
    """A mask of all places at once, as `transformers` makes it with `vmap`, which TorchScript cannot trace."""

    def mask(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return mask_function(
            batch[:, None, None, None], head[None, :, None, None], query[None, None, :, None], key[None, None, None, :]
        )

    return mask


def export(case: Case, path: Path, *, opset: int, dynamo: bool) -> None:
    """Write one file, without the names of source files and lines that exporters add to each node.

    Raises:
        Exception: Whatever the exporter raises.
    """
    torch.manual_seed(1)
    module = case.module().eval()
    settings: dict[str, Any] = {
        "input_names": list(case.inputs),
        "output_names": case.outputs,
        "opset_version": opset,
        "dynamo": dynamo,
    }
    if dynamo:
        shapes = tuple(
            dict.fromkeys(case.dynamic.get(name, {}), torch.export.Dim.DYNAMIC) or None for name in case.inputs
        )
        variadic = module.forward.__code__.co_flags & 0x04
        plain = module.forward.__code__.co_argcount - 1
        settings["dynamic_shapes"] = (*shapes[:plain], shapes[plain:]) if variadic else shapes
        settings["external_data"] = False
    else:
        settings["dynamic_axes"] = case.dynamic
        settings["do_constant_folding"] = True
    masking = transformers.masking_utils
    replaced = {} if dynamo else {"_vmap_for_bhqkv": _by_broadcasting, "TransformGetItemToIndex": nullcontext}
    with ExitStack() as stack:
        for name, value in replaced.items():
            stack.enter_context(patch.object(masking, name, value))
        torch.onnx.export(module, tuple(case.inputs.values()), str(path), **settings)
    model = onnx.load(path)
    for node in model.graph.node:
        node.doc_string = ""
        if not dynamo:
            node.name = ""  # longer than the rest of the node; the value names say the same
        del node.metadata_props[:]
    named: list[Any] = [*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer]
    for value in named:
        value.doc_string = ""
        if hasattr(value, "metadata_props"):
            del value.metadata_props[:]
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    model.producer_version = ""
    onnx.save(model, path)


def main() -> int:
    """Export what was asked for; exit status 1 where an exporter failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=None, help="names of models")
    parser.add_argument("--exporter", choices=("script", "dynamo"), default=None, help="one of them only")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for case in cases():
        if arguments.only and case.name not in arguments.only:
            continue
        for title, opset, dynamo in (
            ("script", SCRIPT_OPSET, False),
            *((f"dynamo{opset}", opset, True) for opset in DYNAMO_OPSETS),
        ):
            if arguments.exporter and dynamo != (arguments.exporter == "dynamo"):
                continue
            path = arguments.folder / f"{case.name}.{title}.onnx"
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # exporters warn about traced Python numbers and their own future
                    export(case, path, opset=opset, dynamo=dynamo)
            except Exception as error:  # one exporter that fails must not keep the others from writing
                failed += 1
                sys.stdout.write(f"{path.name}: {type(error).__name__}: {str(error)[:400]}\n")
                path.unlink(missing_ok=True)
                continue
            nodes = len(onnx.load(path).graph.node)
            sys.stdout.write(f"{path.name}: {nodes} nodes, {path.stat().st_size:,} bytes\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
