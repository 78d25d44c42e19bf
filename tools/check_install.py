"""Does an installed lieattn answer with its CPU kernel, with torch and safetensors alone?"""

import torch

import lieattn as la

torch.manual_seed(0)
poses = la.SE3.random(2, 64).requires_grad_()
values, weights = torch.randn(2, 4, 64, 16), torch.rand(4, 2)
answers = {}
for backend in ("native", "reference"):
    out, coords = la.lie_attention(la.SE3, poses, poses, values, weights, backend=backend)
    (grad,) = torch.autograd.grad(out.square().sum() + coords.square().sum(), poses)
    answers[backend] = (out, coords, grad)
for ours, expected in zip(*answers.values(), strict=True):
    torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-4)

model = la.CompletionModel(la.SE3)
done = model.complete(la.SE3.random(4, 7))
assert done.pose.shape == (4, 4, 4)
print(f"lieattn {la.__version__} of {la.__path__[0]}: the kernel agrees with the reference")
