"""The places of the compiled programs' arguments, 64-bit integers; addresses unless the comment says otherwise."""

from __future__ import annotations

BLOCK = 32  # bfloat16 values that are read at once; all inner sizes are multiples of it
FEW = 16  # rows up to which every thread computes the norms of all rows itself, instead of waiting for the others
PER_LAYER = 9  # addresses of weights

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
EPS = 9  # the bits of a float32
WEIGHTS = 10  # addresses [LAYERS, 9]: norm (float32), qkv, out, norm (float32), gate and up, down, and three that
# may be 0, in float32: the bias of qkv, the norm of a head of queries, that of keys
NORM = 11  # float32
HEAD = 12  # bfloat16 [VOCABULARY, HIDDEN]
COS = 13  # float32 [positions, WIDTH / 2]
SIN = 14
EMBEDDED = 15  # bfloat16 [ROWS, HIDDEN]
POSITIONS = 16  # int64 [ROWS]
SLOTS = 17  # int64 [ROWS]
MASK = 18  # bool [ROWS, COLUMNS], or 0: each row attends to all slots up to its own
COLUMNS = 19  # number
CACHE = 20  # bfloat16 [LAYERS, 2, sequences, KV_HEADS, CAPACITY, WIDTH]
SEQUENCES = 21  # number
CAPACITY = 22  # number
LOGIT_ROWS = 23  # int64 [LOGITS_OF]: the rows whose logits are computed
LOGITS_OF = 24  # number
LOGITS = 25  # float32 [LOGITS_OF, VOCABULARY]
STATES = 26  # bfloat16 [LAYERS + 1, ROWS, HIDDEN], or 0
X = 27  # float32 [ROWS, HIDDEN]: the residual stream
SPLIT = 28  # float32 [threads, FEW, HIDDEN] or [ROWS, HIDDEN]: norms
JOINED = 29  # float32 [ROWS, widest product]
QUERIES = 30  # float32 [ROWS, HEADS x WIDTH], split
MIXED = 31  # float32 [ROWS, HEADS x WIDTH], split
GATED = 32  # float32 [ROWS, MLP], split
SEEN = 33  # int32 [ROWS, COLUMNS]
COUNTS = 34  # int64 [ROWS, 2]
SCORES = 35  # float32 [threads, COLUMNS]
ARGUMENTS = 36

# a step of a head, beside those above: it has one layer, EMBEDDED are the embeddings of the tokens
FEATURES = 36  # bfloat16 [ROWS, HIDDEN], or 0: they are fused from STATES_READ
EMBEDDED_NORM = 37  # float32, or 0: no norm
FEATURES_NORM = 38  # float32, or 0: no norm
FUSION = 39  # bfloat16 [HIDDEN, 2 HIDDEN], or 0: attention itself reads the pairs
FUSION_BIAS = 40  # float32, or 0
NORMED_RESIDUAL = 41  # whether the residual stream starts after the norm of the features
NORMED_NEXT = 42  # whether the features of the next step are the output of the final norm
NEXT = 43  # bfloat16 [ROWS, HIDDEN]: the features of the next step
PAIRS = 44  # float32 [ROWS, 2 HIDDEN], split: embedding and features
STATES_READ = 45  # bfloat16 [ROWS, STATE_COUNT, HIDDEN]
STATE_COUNT = 46  # number
STATE_NORMS = 47  # addresses [STATE_COUNT] of float32 norms; 0: no norm
STATE_FUSION = 48  # bfloat16 [HIDDEN, STATE_COUNT HIDDEN]
STATES_SPLIT = 49  # float32 [ROWS, STATE_COUNT HIDDEN], split
H_ARGUMENTS = 50

# one product
M_ROWS = 0  # number
M_LENGTH = 1  # of a row
M_OUTPUTS = 2  # number
M_X = 3  # bfloat16 [M_ROWS, M_LENGTH]
M_WEIGHT = 4  # bfloat16 [M_OUTPUTS, M_LENGTH]
M_SPLIT = 5  # float32 [M_ROWS, M_LENGTH]
M_PRODUCT = 6  # float32 [M_ROWS, M_OUTPUTS]
M_OUT = 7  # bfloat16 [M_ROWS, M_OUTPUTS], or 0
M_ARGUMENTS = 8
