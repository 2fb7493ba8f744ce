"""The place of each operator's kernels: the modules that declare kernels, and the operators each declares.

A new family is a file in this package and an entry here; a new operator is a word in its family's entry, with its
domain and a colon in front unless that is ``ai.onnx``. Modules are imported when one of their operators is asked for.
"""

from __future__ import annotations

__all__ = ["FAMILIES"]

FAMILIES: dict[str, str] = {
    "arithmetic": "Add Sub Mul Div Mod Pow BitShift Neg Abs Min Max Sum Mean",
    "comparison": (
        "Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor Not BitwiseAnd BitwiseOr BitwiseXor BitwiseNot "
        "IsNaN IsInf"
    ),
    "math_functions": (
        "Erf Sqrt Exp Log Reciprocal Floor Ceil Round Sign Tanh Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh"
    ),
    "activation": (
        "LeakyRelu ThresholdedRelu Sigmoid Swish HardSigmoid HardSwish Elu Selu Celu Softplus Softsign Mish Gelu "
        "Shrink Relu PRelu"
    ),
    "clipping": "Clip",
    "softmax": "Softmax LogSoftmax Hardmax",
    "casting": "BitCast Cast CastLike",
    "generation": "Range EyeLike OneHot Constant ConstantOfShape",
    "reduction": (
        "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
        "ReduceSumSquare"
    ),
    "arg_reduction": "ArgMax ArgMin",
    "accumulation": "CumSum CumProd",
    "shape": "Size Shape Identity Reshape Flatten Squeeze Unsqueeze",
    "movement": "Expand Tile DepthToSpace SpaceToDepth Transpose Concat Split",
    "slicing": "Slice",
    "padding": "Pad",
    "gather": "GatherElements GatherND Gather",
    "scatter": "ScatterElements Scatter ScatterND",
    "selection": "NonZero Compress Trilu ReverseSequence Where",
    "sequences": (
        "SequenceConstruct SequenceEmpty SequenceLength SequenceAt SequenceErase SequenceInsert SplitToSequence "
        "ConcatFromSequence"
    ),
    "optionals": "OptionalHasElement Optional OptionalGetElement",
    "ordering": "TopK Unique",
    "dropout": "Dropout",
    "matmul": "MatMul Gemm",
    "einsum": "Einsum",
    "convolution": "Conv ConvTranspose",
    "pooling": "GlobalAveragePool GlobalMaxPool GlobalLpPool MaxPool AveragePool LpPool",
    "resize": "Resize Upsample",
    "normalization": (
        "LayerNormalization RMSNormalization InstanceNormalization GroupNormalization LRN LpNormalization "
        "MeanVarianceNormalization BatchNormalization"
    ),
    "recurrent": "RNN GRU LSTM",
    "attention.attention": "Attention",
    "attention.flex_attention": "ai.onnx.preview:FlexAttention",
    "attention.rotary_embedding": "RotaryEmbedding",
    "attention.tensor_scatter": "TensorScatter",
    "attention.swiglu": "SwiGLU",
    "attention.linear_attention": "LinearAttention",
    "attention.causal_convolution": "CausalConvWithState",
    "quantization": (
        "QuantizeLinear DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearMatMul ConvInteger QLinearConv"
    ),
    "classic_ml.linear": "ai.onnx.ml:LinearClassifier ai.onnx.ml:LinearRegressor",
    "classic_ml.scaling": "ai.onnx.ml:Normalizer ai.onnx.ml:Scaler ai.onnx.ml:Binarizer ai.onnx.ml:Imputer",
    "classic_ml.features": "ai.onnx.ml:ArrayFeatureExtractor ai.onnx.ml:FeatureVectorizer",
    "classic_ml.lookup": "ai.onnx.ml:LabelEncoder ai.onnx.ml:CategoryMapper ai.onnx.ml:OneHotEncoder",
    "classic_ml.maps": "ai.onnx.ml:ZipMap ai.onnx.ml:CastMap ai.onnx.ml:DictVectorizer",
    "classic_ml.trees": "ai.onnx.ml:TreeEnsemble ai.onnx.ml:TreeEnsembleRegressor ai.onnx.ml:TreeEnsembleClassifier",
    "classic_ml.svm": "ai.onnx.ml:SVMRegressor ai.onnx.ml:SVMClassifier",
    "text.string_operators": "StringConcat StringSplit StringNormalizer",
    "text.regex": "RegexFullMatch",
    "text.tfidf": "TfIdfVectorizer",
    "text.tokenizer": "com.microsoft:Tokenizer",
    "random_numbers": "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial",
    "determinant": "Det",
    "losses": "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    "training": "ai.onnx.preview.training:Adagrad ai.onnx.preview.training:Adam ai.onnx.preview.training:Momentum",
    "signal.dft": "DFT",
    "signal.stft": "STFT",
    "signal.weightings": "MelWeightMatrix HannWindow HammingWindow BlackmanWindow",
    "vision.affine_grid": "AffineGrid",
    "vision.center_crop_pad": "CenterCropPad",
    "vision.col2im": "Col2Im",
    "vision.grid_sample": "GridSample",
    "vision.roi_align": "RoiAlign",
    "vision.max_roi_pool": "MaxRoiPool",
    "vision.max_unpool": "MaxUnpool",
    "vision.deform_conv": "DeformConv",
    "vision.non_max_suppression": "NonMaxSuppression",
    "vision.image_decoder": "ImageDecoder",
    "contrib.activations": "com.microsoft:Gelu com.microsoft:QuickGelu com.microsoft:BiasGelu com.microsoft:FastGelu",
    "contrib.fused_products": "com.microsoft:FusedMatMul com.microsoft:FusedGemm com.microsoft:FusedConv",
    "contrib.normalization": (
        "com.microsoft:SkipLayerNormalization com.microsoft:SkipSimplifiedLayerNormalization "
        "SimplifiedLayerNormalization com.microsoft:EmbedLayerNormalization"
    ),
    "contrib.general": (
        "com.microsoft:Pad com.microsoft:Unique com.microsoft:Range com.microsoft:Inverse "
        "com.microsoft:NGramRepeatBlock com.microsoft:Trilu com.microsoft:GatherND com.microsoft:GridSample "
        "com.microsoft:ConvTransposeWithDynamicPads"
    ),
    "contrib.distances": "com.microsoft:CDist",
    "contrib.block_quantized": "com.microsoft:MatMulNBits com.microsoft:MatMulBnb4",
    "contrib.gather_block_quantized": "com.microsoft:GatherBlockQuantized",
    "contrib.experts": "com.microsoft:MoE com.microsoft:QMoE",
    "contrib.dynamic_quantize_lstm": "com.microsoft:DynamicQuantizeLSTM",
    "contrib.quantize_linear": "com.microsoft:QuantizeLinear com.microsoft:DequantizeLinear",
    "contrib.quantized_elementwise": "com.microsoft:QLinearAdd com.microsoft:QLinearMul",
    "contrib.quantized_lookup": (
        "com.microsoft:QLinearSigmoid com.microsoft:QLinearLeakyRelu com.microsoft:QLinearWhere "
        "com.microsoft:QLinearConcat"
    ),
    "contrib.quantized_softmax": "com.microsoft:QLinearSoftmax",
    "contrib.quantized_products": (
        "com.microsoft:DynamicQuantizeMatMul com.microsoft:MatMulIntegerToFloat com.microsoft:QGemm "
        "com.microsoft:QLinearConv"
    ),
    "contrib.quantized_pooling": (
        "com.microsoft:QLinearGlobalAveragePool com.microsoft:QLinearAveragePool com.microsoft:NhwcMaxPool"
    ),
    "contrib.quantized_embedding": "com.microsoft:QEmbedLayerNormalization",
    "contrib.generation.greedy": "com.microsoft:GreedySearch",
    "contrib.generation.sampling": "com.microsoft:Sampling",
    "contrib.generation.beam_search": "com.microsoft:BeamSearch com.microsoft:WhisperBeamSearch",
    "contrib.attention": "com.microsoft:Attention",
    "contrib.multi_head_attention": "com.microsoft:MultiHeadAttention com.microsoft:DecoderMaskedMultiHeadAttention",
    "contrib.group_query_attention": "com.microsoft:GroupQueryAttention",
    "contrib.paged_attention": "com.microsoft:PagedAttention",
    "contrib.sparse_attention": "com.microsoft:SparseAttention",
    "contrib.rotary": "com.microsoft:RotaryEmbedding com.microsoft:MRotaryEmbedding",
    "contrib.linear_attention": "com.microsoft:LinearAttention com.microsoft:CausalConvWithState",
    "contrib.quantized_attention": "com.microsoft:QAttention",
}
