"""Stories: a built-in language of short English stories whose entropy is known.

    language = StoryLanguage(seed=0)
    story = next(language.stories(split="train", seed=0))
    language.log_prob(story)              # exact, in nats
    print(language.explain("Once upon"))  # where a text leaves the language, and why

It comes in sizes: `StoryLanguage.hamlet()` has few people and three tales, and
`StoryLanguage.named("village")` is between.

`grammar` is the engine: one program that a writer and a reader both run. `lexicon.toml` holds the
words, `tales.txt` the stories, `world` decides what is true of whom, and `language` puts them
together. `exact` tells what a perfect model knows at each place of a story. No part of it needs
torch. Chapters 9 and 14.
"""

from decoder_only.stories.language import (
    Explanation,
    Floor,
    Story,
    StoryLanguage,
    split_of,
)

__all__ = ["Explanation", "Floor", "Story", "StoryLanguage", "split_of"]
