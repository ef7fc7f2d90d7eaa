#!/usr/bin/env bash
# onnx 1.23.2, onnxruntime 1.32.0, OpenVINO 2026.4.1, OpenCV 4.14.0 (PyPI): a Softmax without an
# axis, opset 11, on an array (batch, time, classes).
# Guess: all do what the standard says of opsets below 13: flatten from axis 1 on, so that time
#   and classes together sum to one.
# Seen: three answers. onnxruntime (and onnx's version converter) flattens. onnx's own
#   ReferenceEvaluator sums over the classes, as from opset 13 on. OpenVINO and OpenCV sum over
#   time. For LogSoftmax OpenVINO flattens, unlike for Softmax. From opset 13 on all agree.
# Wrong number: one file, and the probability of a class is 0.07, 0.23 or 0.51, by runtime; with
#   the reference implementation as referee a wrong one of them is called right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check onnx==1.23.2 onnxruntime==1.32.0 \
    openvino==2026.4.1 opencv-python-headless==4.14.0.94 numpy==2.4.6
cd "$folder"
OPENVINO_TELEMETRY_DISABLE=1 "$folder/env/bin/python" -W ignore - <<'EOF'
import cv2
import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, version_converter
from onnx.reference import ReferenceEvaluator

x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)  # batch, time, classes


def in_onnxruntime(model):
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]


def in_openvino(model):
    return openvino.compile_model(openvino.Core().read_model("model.onnx"), "CPU")([x])[0]


def in_opencv(model):
    net = cv2.dnn.readNetFromONNX("model.onnx")
    net.setInput(x)
    return net.forward()


runtimes = {
    "onnxruntime": in_onnxruntime,
    "converted to opset 13": lambda model: in_onnxruntime(
        version_converter.convert_version(model, 13)),
    "onnx reference": lambda model: ReferenceEvaluator(model).run(None, {"x": x})[0],
    "OpenVINO": in_openvino,
    "OpenCV": in_opencv,
}
axes = {"time and classes": (1, 2), "classes": (2,), "time": (1,)}
found = {}
for operator in ("Softmax", "LogSoftmax"):
    for opset in (11, 13):
        values = [helper.make_tensor_value_info(v, TensorProto.FLOAT, x.shape) for v in "xy"]
        graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "g", values[:1], values[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7)
        onnx.checker.check_model(model)
        onnx.save(model, "model.onnx")
        for name, run in runtimes.items():
            p = np.exp(run(model)) if operator == "LogSoftmax" else run(model)
            over = [a for a, axis in axes.items() if np.allclose(p.sum(axis=axis), 1, atol=1e-5)]
            found[operator, opset, name] = over
            print(f"{operator}, opset {opset}, {name}: sums to one over {' '.join(over)}; "
                  f"first probability {p[0, 0, 0]:.3f}")

assert all(found[o, 13, name] == ["classes"] for o in ("Softmax", "LogSoftmax") for name in runtimes)
assert found["Softmax", 11, "onnxruntime"] == ["time and classes"]
assert found["Softmax", 11, "converted to opset 13"] == ["time and classes"]
assert found["Softmax", 11, "onnx reference"] == ["classes"]
assert found["Softmax", 11, "OpenVINO"] == found["Softmax", 11, "OpenCV"] == ["time"]
assert found["LogSoftmax", 11, "OpenVINO"] == ["time and classes"]
EOF
