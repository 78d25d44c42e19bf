"""How much memory a computation takes, told by its tensors: the same on every machine."""

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class LargestTensor(TorchDispatchMode):
    """Elements of the largest tensor that an operation makes; those without memory do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, Tensor) and not x.is_meta:
                self.elements = max(self.elements, x.untyped_storage().nbytes() // x.itemsize)
        return out
