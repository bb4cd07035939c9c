"""The end of workbook 8: the reader's own functions run a trained model and write a story."""

__all__ = ["ENDING"]

PARTS = """\
from decoder_only_book.progress import own

merge, look_up, turn = own("1.1"), own("2.1"), own("2.2")
attend, split, join = own("3.2"), own("4.1"), own("4.2")
fold, rms_norm, squared_mlp = own("5.2"), own("5.6"), own("6.6")
cross_entropy = own("7.1")
block, logits = own("8.1"), own("8.2")"""

ATTENTION = """\
from decoder_only_book.stored import load_model

saved = load_model("full")
model, tokenizer = saved.model.requires_grad_(False), saved.tokenizer
no_bias = torch.zeros(model.config.d_model)

def attention_of(layer, gain):
    K = layer.head_dim
    frequencies = layer.rotary_base ** (-torch.arange(0, K, 2) / K)
    parts = (layer.query, layer.key, layer.value)
    matrices = [fold(gain, no_bias, part.weight)[0] for part in parts]

    def attention(x):
        sees = torch.ones(len(x), len(x)).tril().bool()
        queries, keys, values = [split(x @ matrix.T, layer.n_heads) for matrix in matrices]
        heads = []
        for query, key, value in zip(queries, keys, values):  # each (S, K)
            query = turn(rms_norm(query, layer.query_norm.weight), frequencies)
            key = turn(rms_norm(key, layer.key_norm.weight), frequencies)
            heads.append(attend(query, key, value, sees))
        return join(torch.stack(heads)) @ layer.output.weight.T

    return attention"""

FORWARD = """\
ones = torch.ones(model.config.d_model)

def norm(x):
    return rms_norm(x, ones)

def mlp_of(layer, gain):
    up = fold(gain, no_bias, layer.up.weight)[0]
    return lambda x: squared_mlp(x, up, layer.down.weight)

layers = []
for layer in model.blocks:
    attention = attention_of(layer.attention, layer.attention_norm.weight)
    layers.append((attention, mlp_of(layer.mlp, layer.mlp_norm.weight)))

table = model.embedding.weight
folded_table = fold(model.final_norm.weight, no_bias, table)[0]

def forward(ids):
    x = look_up(torch.tensor(ids), table)  # (S, D)
    for attention, mlp in layers:
        x = block(x, norm, attention, mlp)
    return logits(x, norm, folded_table)  # (S, V)"""

STORY = """\
from decoder_only.tokenization import pretokenize

def encode(text):
    ids = []
    for word in pretokenize(text):
        piece = next(tokenizer.merge_steps(word))  # its bytes, before any merge
        for new_id, pair in enumerate(tokenizer.merges, start=256):
            piece = list(merge(piece, pair, new_id))
        ids += piece
    return ids

ids, end = encode("Ivo had one radish seed."), tokenizer.special_tokens["<|endoftext|>"]
while ids[-1] != end and len(ids) < 200:
    ids.append(forward(ids)[-1].argmax().item())
print(tokenizer.decode(ids))"""

COMPARED = """\
found, wanted = forward(ids), model(torch.tensor([ids]))[0]
print(f"largest difference from the package: {(found - wanted).abs().max():.3f}")
loss = cross_entropy(found[:-1], torch.tensor(ids[1:]))
print(f"loss on its own story: {loss:.2f} nats per token")"""

ENDING: dict[int, tuple[tuple[str, str], ...]] = {
    8: (
        (
            "markdown",
            "## Your model writes a story\n\nYou have written parts of a language model. Now they "
            "run a trained one. Functions from other workbooks are found if `progress.json` is in "
            "this folder. On Colab each notebook has a folder of its own. Download the file there "
            "and upload it here. For a function that has not passed yet, the book's own is used.",
        ),
        ("code", PARTS),
        (
            "markdown",
            "The stored model has learned many small stories. First comes its attention. Your "
            "`fold` puts the scale of the norm into the matrices. Your `turn` gives queries and "
            "keys their positions, and your `attend` does the rest, head by head. This model also "
            "normalizes queries and keys, by your `rms_norm`.",
        ),
        ("code", ATTENTION),
        (
            "markdown",
            "Now the whole model: your look-up, your block with your norm and your MLP once for "
            "each layer, and your logits. In these two cells only the weights are the package's.",
        ),
        ("code", FORWARD),
        (
            "markdown",
            "Your merges turn the beginning into ids. Then the model adds the likeliest token, "
            "again and again, until a story ends.",
        ),
        ("code", STORY),
        (
            "markdown",
            "Is it the same model? Compare your logits with those of the package. The loss is low, "
            "because the model chose each token itself.",
        ),
        ("code", COMPARED),
    ),
}
"""Cells after the exercises, by chapter: their kind and their source."""
