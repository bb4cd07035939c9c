"""The command `export`."""

from pathlib import Path
from typing import Annotated

from decoder_only import hub
from decoder_only.cli.options import Flag, option
from decoder_only.cli.words import command, plain
from decoder_only.training import checkpoint


def export(
    *,
    run: Annotated[Path, option("DIR")],
    out: Annotated[Path, option("FOLDER")],
    overwrite: Flag = False,
) -> None:
    """Write a run's model as a folder that Hugging Face's transformers opens.

    Args:
        run: Folder of the run, as `train` printed it.
        out: The folder, new or empty.
        overwrite: Take the place of files of the same names.
    """
    saved = checkpoint.load(run)
    hub.export(saved.model, saved.tokenizer, out, overwrite=overwrite)
    print(f"The model is in {plain(out)}. Python opens it by transformers:")
    print(f"  AutoModelForCausalLM.from_pretrained({str(out)!r})")
    print("and so does this command:")
    data = saved.config.get("data", {})
    is_of_stories = data.get("kind") == "stories"
    language = ["--language", data.get("language", "full")] if is_of_stories else []
    print(command("sample", "--run", out, *language))
