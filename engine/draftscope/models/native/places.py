"""The places of the compiled programs' arguments, 64-bit integers; addresses unless the comment says otherwise."""

from __future__ import annotations

BLOCK = 32  # bfloat16 values that are read at once; all inner sizes are multiples of it
STORED = 1  # added to the address of a table of weights as they lie in a file (`stored_weight.py`); others are even
FEW = 16  # rows up to which every thread computes the norms of all rows itself, instead of waiting for the others

# a layer's weights: addresses, of float32 norms and biases and of bfloat16 products; 0 where a model has none
W_NORM = 0
W_QKV = 1
W_OUT = 2
W_MLP_NORM = 3
W_UP = 4  # gate and up, or up alone
W_DOWN = 5
W_QKV_BIAS = 6
W_QUERY_NORM = 7  # of each head
W_KEY_NORM = 8
W_NORM_BIAS = 9  # a norm with a bias is a LayerNorm, one without an RMSNorm
W_MLP_NORM_BIAS = 10
W_OUT_BIAS = 11
W_UP_BIAS = 12
W_DOWN_BIAS = 13
W_OUT_NORM = 14  # of the product, before it is added
W_DOWN_NORM = 15
W_KIND = 16  # a number: the layer's kind, which decides its angles and how far back it attends
PER_LAYER = 17

# the forward
ROWS = 0  # number of rows of all sequences
TEXT_ROWS = 1  # number of rows of each sequence
HIDDEN = 2  # width
HEADS = 3  # number
KV_HEADS = 4  # number
WIDTH = 5  # of a head
MLP = 6  # width
LAYERS = 7  # number
VOCABULARY = 8  # size
NUMBERS = 9  # float32 [2]: epsilon of the norms, factor of the attention scores
WEIGHTS = 10  # [LAYERS, PER_LAYER]
NORM = 11  # float32
NORM_BIAS = 12  # float32, or 0
HEAD = 13  # bfloat16 [VOCABULARY, HIDDEN]
HEAD_BIAS = 14  # float32, or 0
ACTIVATION = 15  # one of those below
GATED = 16  # whether the activation is multiplied by another product
PARALLEL = 17  # whether attention and MLP read the same residual stream
INTERLEAVED = 18  # whether the product of each head's query is followed by those of its key and value
KINDS = 19  # number of kinds of layers
WINDOWS = 20  # int64 [KINDS]: positions that a row attends to, or 0: all
ROTARY = 21  # columns of a head that are rotated
ANGLES = 22  # number of positions
COS = 23  # float32 [KINDS, ANGLES, ROTARY / 2]
SIN = 24
EMBEDDED = 25  # [ROWS, HIDDEN], bfloat16 or, where EXACT is set, float32
POSITIONS = 26  # int64 [ROWS]
SLOTS = 27  # int64 [ROWS]
MASK = 28  # bool [KINDS, ROWS, COLUMNS], or 0: each row attends to the slots up to its own
COLUMNS = 29  # number
CACHE = 30  # bfloat16 [LAYERS, 2, sequences, KV_HEADS, CAPACITY, WIDTH]
SEQUENCES = 31  # number
CAPACITY = 32  # number
LOGIT_ROWS = 33  # int64 [LOGITS_OF]: the rows whose logits are computed
LOGITS_OF = 34  # number
LOGITS = 35  # float32 [LOGITS_OF, VOCABULARY]
STATES = 36  # bfloat16 [LAYERS + 2, ROWS, HIDDEN], or 0
X = 37  # float32 [ROWS, HIDDEN]: the residual stream
SPLIT = 38  # float32 [threads, FEW, HIDDEN] or [ROWS, HIDDEN]: norms
JOINED = 39  # float32 [ROWS, widest product]
QUERIES = 40  # float32 [ROWS, HEADS x WIDTH], split
MIXED = 41  # float32 [ROWS, HEADS x WIDTH], split
ACTIVATED = 42  # float32 [ROWS, MLP], split
SEEN = 43  # int32 [KINDS, ROWS, COLUMNS]
COUNTS = 44  # int64 [KINDS, ROWS, 2]
SCORES = 45  # float32 [threads, COLUMNS]
TEAM = 46  # int64 [threads, LINE]: where each thread of a call is, see team.py
EXACT = 47  # whether the embeddings are float32
ARGUMENTS = 48

SILU, GELU_TANH, GELU = 0, 1, 2

# a step of a head, beside those above: it has one layer, EMBEDDED are the embeddings of the tokens
FEATURES = 48  # bfloat16 [ROWS, HIDDEN], or 0: they are fused from STATES_READ
EMBEDDED_NORM = 49  # float32, or 0: no norm
FEATURES_NORM = 50  # float32, or 0: no norm
FUSION = 51  # bfloat16 [HIDDEN, 2 HIDDEN], or 0: attention itself reads the pairs
FUSION_BIAS = 52  # float32, or 0
NORMED_RESIDUAL = 53  # whether the residual stream starts after the norm of the features
NORMED_NEXT = 54  # whether the features of the next step are the output of the final norm
NEXT = 55  # bfloat16 [ROWS, HIDDEN]: the features of the next step
PAIRS = 56  # float32 [ROWS, 2 HIDDEN], split: embedding and features
STATES_READ = 57  # bfloat16 [ROWS, STATE_COUNT, HIDDEN]
STATE_COUNT = 58  # number
STATE_NORMS = 59  # addresses [STATE_COUNT] of float32 norms; 0: no norm
STATE_FUSION = 60  # bfloat16 [HIDDEN, STATE_COUNT HIDDEN]
STATES_SPLIT = 61  # float32 [ROWS, STATE_COUNT HIDDEN], split
H_ARGUMENTS = 62

# one product
M_ROWS = 0  # number
M_LENGTH = 1  # of a row
M_OUTPUTS = 2  # number
M_X = 3  # bfloat16 [M_ROWS, M_LENGTH]
M_WEIGHT = 4  # bfloat16 [M_OUTPUTS, M_LENGTH]
M_SPLIT = 5  # float32 [M_ROWS, M_LENGTH]
M_PRODUCT = 6  # float32 [M_ROWS, M_OUTPUTS]
M_OUT = 7  # bfloat16 [M_ROWS, M_OUTPUTS], or 0
M_TEAM = 8  # as TEAM
M_ARGUMENTS = 9
