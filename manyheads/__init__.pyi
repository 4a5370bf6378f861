# The names that `import manyheads` gives, in reading order. __init__.py reads this list and loads
# each when it is first used, so that `manyheads --help` answers without loading torch.
# ruff: noqa: I001

# where tokens are
from manyheads.attention.places import (
    line as line,
    grid as grid,
    graph as graph,
    packed as packed,
    Grid as Grid,
    Graph as Graph,
    Pairs as Pairs,
)

# who may attend to whom
from manyheads.attention.patterns import (
    Pattern as Pattern,
    Everything as Everything,
    Causal as Causal,
    Window as Window,
    Blocks as Blocks,
    Prefix as Prefix,
    Lengths as Lengths,
    Segments as Segments,
)
from manyheads.attention.notation import read as read

# how place enters: below the first layer, or in every layer
from manyheads.attention.positions import (
    Position as Position,
    Sinusoidal as Sinusoidal,
    Learned as Learned,
    Concatenated as Concatenated,
)
from manyheads.attention.rules import (
    Clipped as Clipped,
    Every as Every,
    Bucketed as Bucketed,
    Edges as Edges,
)
from manyheads.attention.positions import (
    Relative as Relative,
    Rotary as Rotary,
    RelativeBias as RelativeBias,
    RelativeContent as RelativeContent,
    Together as Together,
)

# how well a key answers a query, and how the sum is computed
from manyheads.attention.scores import (
    ScaledDot as ScaledDot,
    Dot as Dot,
    Multiplicative as Multiplicative,
    Additive as Additive,
)
from manyheads.attention.kernels import (
    KERNELS as KERNELS,
    Work as Work,
    choose as choose,
    kernel as kernel,
    plan as plan,
    Recorded as Recorded,
    Checked as Checked,
)
from manyheads.attention.cache import Growing as Growing, Static as Static
from manyheads.attention.layer import Attention as Attention

# models
from manyheads.modules.config import (
    TransformerConfig as TransformerConfig,
    RecurrentConfig as RecurrentConfig,
    ConvolutionalConfig as ConvolutionalConfig,
)
from manyheads.modules.stack import Stack as Stack, Memory as Memory
from manyheads.modules.transformer import (
    Tokens as Tokens,
    Embedding as Embedding,
    Tied as Tied,
    Encoder as Encoder,
    Decoder as Decoder,
    EncoderDecoder as EncoderDecoder,
)

# writing
from manyheads.decoding.step import Step as Step, CachedStep as CachedStep
from manyheads.decoding.rows import RowStep as RowStep
from manyheads.decoding.bounds import Bounds as Bounds, Hypothesis as Hypothesis
from manyheads.decoding.greedy import greedy as greedy
from manyheads.decoding.beam import beam as beam
from manyheads.decoding.sample import sample as sample
from manyheads.decoding.config import DecodingConfig as DecodingConfig, Sampling as Sampling
from manyheads.decoding.strategies import STRATEGIES as STRATEGIES, decode as decode
from manyheads.decoding.cuda_graph import CudaGraphDecoder as CudaGraphDecoder

# looking inside
from manyheads.inspect.record import recording as recording
from manyheads.inspect.interventions import off as off, overwritten as overwritten
from manyheads.inspect.interventions import Forbidden as Forbidden, Forced as Forced, Off as Off
from manyheads.inspect.interventions import Overwritten as Overwritten
from manyheads.inspect.drawing import draw as draw, AttentionMap as AttentionMap

# trained models
from manyheads.models import load as load
from manyheads.api import train as train
from manyheads.tasks.model import Model as Model
from manyheads.tasks.seq2seq.model import Translator as Translator
from manyheads.tasks.language.model import LanguageModel as LanguageModel
from manyheads.tasks.language.decoding import LanguageDecoding as LanguageDecoding

__version__: str
