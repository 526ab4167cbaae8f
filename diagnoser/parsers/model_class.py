"""What a model's class name, or its path, tells about it.

MLA classes: SGLang 0.5.9 model_config.py and its attention defaults. Multimodal: the endings that SGLang's and
vLLM's lists of multimodal classes share. A class that no pattern knows says nothing.
"""

import re
from typing import Literal

from diagnoser.facts.engine import Model
from diagnoser.facts.lazy import lazy

Attention = Literal["mla", "mha", "hybrid"]

_DRAFT = lazy(r"Eagle|NextN|MTP|Mtp|Medusa|DFlash|Draft|Speculator")
_MLA = lazy(
    r"Deepseek(?:V2|V3|V32)ForCausalLM|KimiK25|KimiVL|Glm4MoeLite|GlmMoeDsa|LongcatFlash|DotsVLM|"
    r"MistralLarge3|MiniCPM3|SarvamMLA"
)
_HYBRID = lazy(
    r"Qwen3Next|Qwen3_5|NemotronH|FalconH1|GraniteMoeHybrid|JetNemotron|JetVLM|KimiLinear|Lfm2|Zamba|Jamba|Bamba|"
    r"MiniMaxText01|MiniMaxM1|BailingMoeV2_5|BailingMoeLinear|Plamo2"
)
_MHA = lazy(
    r"Llama|Llava|Mllama|Qwen2|Qwen3|QWen|Mistral|Mixtral|Gemma|Phi|GptOss|Glm4|Glm4v|ChatGLM|Cohere|Olmo|Granite|"
    r"Starcoder|GPTBigCode|GPTNeoX|Falcon|InternLM|Baichuan|Exaone|MiniMaxM2|Ernie4_5|Grok1|Dbrx|OPTFor|Bloom|"
    r"DeepseekForCausalLM|DeepseekOCR|Solar|Nemotron|Apertus|SmolLM|Xverse|Orion|Step3"
)
_MOE = lazy(
    r"Moe|MoE|MOE|Mixtral|Deepseek(?:V2|V3|V32|V4)|KimiK25|KimiVL|KimiLinear|GptOss|Llama4|Qwen3Next|Dbrx|Arctic|Grok1|"
    r"MiniMax|Longcat|MistralLarge3|Jamba|DotsVLM"
)
_DENSE = lazy(
    r"(?:Llama|Qwen2|Qwen3|Mistral|Gemma\d?|Phi3?|Cohere2?|Glm4|Olmo2?|Starcoder2|Falcon|InternLM2?|Exaone4?)ForCausalLM\Z"
)
_MULTIMODAL = lazy(
    r"(?<!T5)(?<!Bart)ForConditionalGeneration\Z|VL|Vision|Llava|InternVLChat|MiniCPM[VO]\Z|MM|MultiModality|Omni|OCR|"
    r"CLIP|Audio|4VFor|Grok1[AV]|Fuyu|Molmo|Ovis|Chameleon"
)
_MLA_PATH = lazy(
    r"deepseek[-_.]?(?:v2|v3|r1)|kimi[-_.]?(?:k2|vl)|glm-4\.7-flash|longcat-flash|mistral-large-3", re.I
)
_NOT_MLA_PATH = lazy(r"distill|eagle|draft", re.I)


def is_draft(architecture: str) -> bool:
    """Is it the class of a speculative draft model?"""
    return _DRAFT.search(architecture) is not None


def model_of(architecture: str, dtype: str | None = None, quantization: str | None = None) -> Model:
    """The model behind a class name; of a draft model only the name is told.

    >>> model_of("KimiK25ForConditionalGeneration").attention
    'mla'
    >>> model_of("Qwen3MoeForCausalLM").moe
    True
    """
    if is_draft(architecture):
        return Model(architecture=architecture)
    return Model(
        architecture=architecture,
        attention=_attention(architecture),
        moe=True if _MOE.search(architecture) else False if _DENSE.match(architecture) else None,
        multimodal=_multimodal(architecture),
        dtype=dtype,
        quantization=quantization,
    )


def model_at(path: str, dtype: str | None = None, quantization: str | None = None) -> Model:
    """The model behind a path or hub name; well-known MLA families are recognised by it.

    >>> model_at("/shared/kimi-k2.5-int4").attention, model_at("DeepSeek-R1-Distill-Llama-8B").attention
    ('mla', None)
    """
    mla = _MLA_PATH.search(path) is not None and _NOT_MLA_PATH.search(path) is None
    return Model(
        path=path,
        attention="mla" if mla else None,
        moe=True if mla else None,
        dtype=dtype,
        quantization=quantization,
    )


def _attention(architecture: str) -> Attention | None:
    if _MLA.match(architecture):
        return "mla"
    if _HYBRID.match(architecture):
        return "hybrid"
    return "mha" if _MHA.match(architecture) else None


def _multimodal(architecture: str) -> bool | None:
    if _MULTIMODAL.search(architecture):
        return True
    return False if architecture.endswith("ForCausalLM") else None
