"""Random rounding: every Python that is started with this folder on its path rounds differently.

`tools/elsewhere.py` puts the folder on `PYTHONPATH` and a seed into `ROUNDING`. Once torch is
imported, the results of matrix products, reductions and softmaxes on the CPU, of their gradients
too, are multiplied by 1 + (one unit in the last place) x a random sign.

The signs depend on the seed, the operation and the shapes alone. So the same operation on the same
numbers gives the same bits twice, as on every processor: what the book calls equal bit by bit must
still be. A result that is a whole number is left as it is, since sums and products of whole
numbers are exact on every processor, and so are a softmax of one number and a zero.
"""

import importlib.util
import os
import random
import sys
import warnings
from importlib.abc import MetaPathFinder

# Operations of ATen that add up in an order which the processor chooses.
PRODUCTS = "mm addmm bmm baddbmm addbmm addmv dot addr"
REDUCTIONS = (
    "sum.dim_IntList mean.dim var.correction std.correction var_mean.correction "
    "std_mean.correction nansum cumsum linalg_vector_norm norm.ScalarOpt_dim prod "
    "prod.dim_int nll_loss_forward mse_loss native_layer_norm embedding_dense_backward "
    "native_layer_norm_backward"
)
SOFTMAXES = (
    "_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data "
    "_scaled_dot_product_flash_attention_for_cpu "
    "_scaled_dot_product_flash_attention_for_cpu_backward"
)
CONVOLUTIONS = "mkldnn_convolution slow_conv2d_forward _slow_conv2d_forward"
DRAWN = 2**20
FEW = 4096
PIECE = 2**13


def install(seed: int) -> None:
    """Replace the kernels of torch in this process."""
    import torch

    library = torch.library.Library("aten", "IMPL")
    tables: dict[torch.dtype, torch.Tensor] = {}
    places: dict[tuple, int] = {}

    def table(dtype: torch.dtype) -> torch.Tensor:
        """Factors of 1, plus or minus one unit in the last place."""
        if dtype not in tables:
            generator = torch.Generator().manual_seed(seed)
            signs = torch.randint(2, (DRAWN,), generator=generator) * 2 - 1
            eps = torch.finfo(dtype).eps
            tables[dtype] = (1 + signs.double() * eps).to(dtype)
        return tables[dtype]

    def place(key: tuple) -> int:
        """Where the factors of a result begin."""
        if key not in places:
            places[key] = random.Random(f"{seed} {key}").randrange(DRAWN // 2)
        return places[key]

    def perturb(key: tuple, result: object) -> None:
        if not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return
        if not result.numel():
            return
        result = result.detach()
        # In pieces: a test that counts the bytes of a step would count these factors, too.
        flat = result.is_contiguous()
        pieces = result.view(-1).split(PIECE) if flat else (result,)
        # Among many numbers some are whole by chance; then the first tells whether all may be.
        first = float(pieces[0].flatten()[0]) if result.numel() > FEW else 0.0
        at, drawn = place(key), table(result.dtype)
        for piece in pieces:
            n = piece.numel()
            if at + n > DRAWN:
                at = 0
            if n > DRAWN:
                drawn = drawn.repeat(n // DRAWN + 1)
            factor = drawn[at : at + n].view(piece.shape)
            if first == first // 1:
                factor = torch.where(piece == piece.trunc(), 1.0, factor)
            piece.mul_(factor)
            at += n

    def replace(name: str) -> None:
        kernel = torch.library.get_kernel(f"aten::{name}", "CPU")

        def rounded(keyset: object, *arguments: object, **settings: object) -> object:
            result = kernel.call_boxed(keyset, *arguments, **settings)
            shapes = tuple(
                tuple(x.shape) for x in arguments if isinstance(x, torch.Tensor)
            )
            for i, each in enumerate(result if isinstance(result, tuple) else [result]):
                perturb((name, i, shapes), each)
            return result

        library.impl(name, rounded, "CPU", with_keyset=True, allow_override=True)

    for name in every_overload(torch):
        replace(name)
    install.library = library  # it would take its kernels back when it is collected


def every_overload(torch: object) -> list[str]:
    """The operations above that this torch computes on a CPU, with their in-place forms."""
    names = f"{PRODUCTS} {REDUCTIONS} {SOFTMAXES} {CONVOLUTIONS}".split()
    bases = {name.partition(".")[0] for name in names}
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    found = []
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        space, _, name = full.partition("::")
        base = name.partition(".")[0]
        in_place = base.removesuffix("_") in bases and base.endswith("_")
        if space == "aten" and (base in bases or in_place) and has(full, "CPU"):
            found.append(name)
    return found


class AfterTorch(MetaPathFinder):
    """Installs the rounding as soon as torch is there, and imports nothing before."""

    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        load = spec.loader.exec_module

        def load_and_install(module):
            load(module)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that kernels are replaced
                install(int(os.environ["ROUNDING"]))

        spec.loader.exec_module = load_and_install
        return spec


if "ROUNDING" in os.environ:
    sys.meta_path.insert(0, AfterTorch())
