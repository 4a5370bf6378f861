"""The parallel networks by kind."""

from __future__ import annotations

from manyheads.tasks.seq2seq.parallel.ctc import CTCNetwork
from manyheads.tasks.seq2seq.parallel.latent import LatentNetwork
from manyheads.tasks.seq2seq.parallel.mask_predict import MaskPredictNetwork
from manyheads.tasks.seq2seq.parallel.network import ParallelNetwork

NETWORKS: dict[str, type[ParallelNetwork]] = {
    "ctc": CTCNetwork,
    "mask-predict": MaskPredictNetwork,
    "latent": LatentNetwork,
}
