"""One model on many devices: divide the batch, the state, the matrices, the sequence or the depth.

Each way but the last is an identity of sums over P devices; what devices then tell each other:

    data        gradient = 1/P sum_p gradient_p                     all-reduce
    tensor      act(x W_up) W_down = sum_p act(x W_up,p) W_down,p   all-reduce, forward and backward
    sequence    norm(x)[s] reads x[s] alone                         all-gather, reduce-scatter
    ring        softmax over t, in P pieces of t                    neighbours exchange keys, values
    pipeline    block_L(... block_1(x))                             neighbours exchange x

What comes out is what one device computes, up to the rounding of a sum in another order. What
differs is how many bytes each device holds, and how many it sends. Chapter 13.
"""

from decoder_only.variants.parallelism.clipping import clip_shares
from decoder_only.variants.parallelism.collectives import (
    hierarchical_all_reduce,
    tree_all_reduce,
)
from decoder_only.variants.parallelism.data import (
    DataParallel,
    FullySharded,
    ShardedOptimizer,
    fully_shard,
)
from decoder_only.variants.parallelism.pipeline import (
    Stage,
    Task,
    gpipe,
    interleaved,
    one_forward_one_backward,
    run_stage,
    simulate,
)
from decoder_only.variants.parallelism.ring import places, ring_attention
from decoder_only.variants.parallelism.tensor import (
    ShardedPart,
    TensorParallel,
    activation_bytes_each,
    copy_to_all,
    gather,
    scatter_sum,
    sum_over_all,
    vocabulary_embedding,
    vocabulary_loss,
)

__all__ = [
    "DataParallel",
    "FullySharded",
    "ShardedOptimizer",
    "ShardedPart",
    "Stage",
    "Task",
    "TensorParallel",
    "activation_bytes_each",
    "clip_shares",
    "copy_to_all",
    "fully_shard",
    "gather",
    "gpipe",
    "hierarchical_all_reduce",
    "interleaved",
    "one_forward_one_backward",
    "places",
    "ring_attention",
    "run_stage",
    "scatter_sum",
    "simulate",
    "sum_over_all",
    "tree_all_reduce",
    "vocabulary_embedding",
    "vocabulary_loss",
]
