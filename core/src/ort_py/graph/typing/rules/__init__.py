"""Types of the outputs of ONNX's operators, by rules of our own that say what ONNX's inference says.

Loading onnx's native library, filling its table of operators and writing a model for it takes longer than these rules
need for all nodes of most models. There are rules for the operators that models consist of. Wherever a rule has doubts,
it raises `Uncovered`, and ONNX's inference answers: for what it does not know, and for every node that contradicts its
operator. So a rule never reports an error, and ONNX's inference remains the judge of what is valid.

Start with `question`, which is what a rule gets, and `table`, which finds the rule.
"""
