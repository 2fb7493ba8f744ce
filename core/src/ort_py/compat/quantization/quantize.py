"""Settings of quantisation; the functions that quantise are not there yet and say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.compat.not_yet import missing_function
from ort_py.compat.quantization.calibrate import CalibrationDataReader, CalibrationMethod
from ort_py.compat.quantization.quant_utils import QuantFormat, QuantType

__all__ = [
    "DynamicQuantConfig",
    "QuantConfig",
    "StaticQuantConfig",
    "get_qdq_config",
    "quantize",
    "quantize_dynamic",
    "quantize_static",
]

_ELSEWHERE = (
    "Quantise with onnxruntime in an environment of its own, or with the exporter's own quantiser, and run the result "
    "here: quantised models of both kinds are supported."
)

quantize = missing_function("quantization.quantize", _ELSEWHERE)
quantize_dynamic = missing_function("quantization.quantize_dynamic", _ELSEWHERE)
quantize_static = missing_function("quantization.quantize_static", _ELSEWHERE)
get_qdq_config = missing_function("quantization.get_qdq_config", _ELSEWHERE)


class QuantConfig:
    """Common settings of both kinds of quantisation.

    Args:
        activation_type: Element type of values.
        weight_type: Element type of constants.
        op_types_to_quantize: Operators; None for all.
        nodes_to_quantize: Names of nodes; None for all.
        nodes_to_exclude: Names of nodes left as they are.
        per_channel: One scale a channel of a constant.
        reduce_range: Constants in 7 bits, for processors whose products overflow otherwise.
        use_external_data_format: Constants in a file of their own.
    """

    def __init__(
        self,
        activation_type: QuantType = QuantType.QUInt8,
        weight_type: QuantType = QuantType.QInt8,
        op_types_to_quantize: Sequence[str] | None = None,
        nodes_to_quantize: Sequence[str] | None = None,
        nodes_to_exclude: Sequence[str] | None = None,
        per_channel: bool = False,
        reduce_range: bool = False,
        use_external_data_format: bool = False,
    ) -> None:
        self.activation_type = activation_type
        self.weight_type = weight_type
        self.op_types_to_quantize = op_types_to_quantize or []
        self.nodes_to_quantize = nodes_to_quantize or []
        self.nodes_to_exclude = nodes_to_exclude or []
        self.per_channel = per_channel
        self.reduce_range = reduce_range
        self.use_external_data_format = use_external_data_format


class StaticQuantConfig(QuantConfig):
    """Quantisation with ranges found beforehand.

    Args:
        calibration_data_reader: Examples to find ranges with.
        quant_format: Form in which the model is written.
        activation_type, weight_type, op_types_to_quantize, nodes_to_quantize, nodes_to_exclude, per_channel,
            reduce_range, use_external_data_format: As `QuantConfig`.
        calibration_providers: Providers that run the model on the examples.
        extra_options: Further settings by name.
    """

    def __init__(
        self,
        calibration_data_reader: CalibrationDataReader,
        calibrate_method: CalibrationMethod = CalibrationMethod.MinMax,
        quant_format: QuantFormat = QuantFormat.QDQ,
        activation_type: QuantType = QuantType.QInt8,
        weight_type: QuantType = QuantType.QInt8,
        op_types_to_quantize: Sequence[str] | None = None,
        nodes_to_quantize: Sequence[str] | None = None,
        nodes_to_exclude: Sequence[str] | None = None,
        per_channel: bool = False,
        reduce_range: bool = False,
        use_external_data_format: bool = False,
        calibration_providers: Sequence[str] | None = None,
        extra_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            activation_type,
            weight_type,
            op_types_to_quantize,
            nodes_to_quantize,
            nodes_to_exclude,
            per_channel,
            reduce_range,
            use_external_data_format,
        )
        self.calibration_data_reader = calibration_data_reader
        self.calibrate_method = calibrate_method
        self.quant_format = quant_format
        self.calibration_providers = calibration_providers
        self.extra_options = extra_options or {}


class DynamicQuantConfig(QuantConfig):
    """Quantisation with ranges found while the model runs.

    Args:
        weight_type, op_types_to_quantize, nodes_to_quantize, nodes_to_exclude, per_channel, reduce_range,
            use_external_data_format: As `QuantConfig`.
        extra_options: Further settings by name.
    """

    def __init__(
        self,
        weight_type: QuantType = QuantType.QInt8,
        op_types_to_quantize: Sequence[str] | None = None,
        nodes_to_quantize: Sequence[str] | None = None,
        nodes_to_exclude: Sequence[str] | None = None,
        per_channel: bool = False,
        reduce_range: bool = False,
        use_external_data_format: bool = False,
        extra_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            weight_type=weight_type,
            op_types_to_quantize=op_types_to_quantize,
            nodes_to_quantize=nodes_to_quantize,
            nodes_to_exclude=nodes_to_exclude,
            per_channel=per_channel,
            reduce_range=reduce_range,
            use_external_data_format=use_external_data_format,
        )
        self.extra_options = extra_options or {}
