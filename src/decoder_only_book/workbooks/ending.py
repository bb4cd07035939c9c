"""The end of workbook 8: the reader's own functions run a trained model and write a story."""

__all__ = ["ENDING"]

PARTS = """\
from decoder_only_book.progress import own

merge, attend = own("1.1"), own("3.2")
block, logits = own("8.1"), own("8.2")"""

FORWARD = """\
from decoder_only_book.stored import load_model

saved = load_model("full")
model, tokenizer = saved.model, saved.tokenizer

def norm(x):
    return x / (x.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()

def attention_of(layer, x):
    sees = torch.ones(len(x), len(x)).tril().bool()
    queries, keys, values = layer.project(x[None])  # each (1, heads, S, K)
    heads = zip(queries[0], keys[0], values[0])
    return layer.output(torch.cat([attend(*head, sees) for head in heads], dim=-1))

@torch.no_grad()
def forward(ids):
    x = model.embedding(torch.tensor([ids]))[0]  # (S, D)
    for layer in model.blocks:
        def attention(x, layer=layer):
            return attention_of(layer.attention, layer.attention_norm.weight * x)

        def mlp(x, layer=layer):
            return layer.mlp(layer.mlp_norm.weight * x)

        x = block(x, norm, attention, mlp)
    return logits(x, norm, model.embedding.weight * model.final_norm.weight)"""

STORY = """\
from decoder_only.tokenization import pretokenize

def encode(text):
    ids = []
    for word in pretokenize(text):
        piece = next(tokenizer.merge_steps(word))  # a list of bytes
        for new_id, pair in enumerate(tokenizer.merges, start=256):
            piece = list(merge(piece, pair, new_id))
        ids += piece
    return ids

ids, end = encode("Ivo had one radish seed."), tokenizer.special_tokens["<|endoftext|>"]
while ids[-1] != end and len(ids) < 200:
    ids.append(forward(ids)[-1].argmax().item())
print(tokenizer.decode(ids))

with torch.no_grad():
    wanted = model(torch.tensor([ids]))[0]
print(f"largest difference from the package: {(forward(ids) - wanted).abs().max():.3f}")"""

ENDING: dict[int, tuple[tuple[str, str], ...]] = {
    8: (
        (
            "markdown",
            "## Your model writes a story\n\nYou have written parts of a language model. Now they "
            "run a trained one. Functions from other workbooks are found if `progress.json` is in "
            "this folder. For a function that has not passed yet, the book's own is used.",
        ),
        ("code", PARTS),
        (
            "markdown",
            "The stored model has learned many small stories. Its projections, its rotary "
            "positions, its MLPs and its weights come from the package. Each stored norm also has "
            "a learned scale. Your block has one plain norm, so each part applies its scale "
            "itself.",
        ),
        ("code", FORWARD),
        (
            "markdown",
            "Your merges turn the beginning into ids. Then the model adds the likeliest token, "
            "again and again. At the end its logits are compared with those of the package's own "
            "model.",
        ),
        ("code", STORY),
    ),
}
"""Cells after the exercises, by chapter: their kind and their source."""
